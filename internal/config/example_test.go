package config_test

import (
	"fmt"

	"github.com/lingserve/lingserve/internal/config"
)

func ExampleLoad() {
	c, err := config.Load(nil, []string{"LINGSERVE_GRACE=1m", "OPENAI_API_KEY=sk-secret"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.Grace, "from", c.Source("grace"))
	openai, _ := c.Provider("openai")
	fmt.Println(openai.Key, "from", c.Source("providers.openai.key"))
	fmt.Println(c.Model, "from", c.Source("model"))
	// Output:
	// 1m0s from environment LINGSERVE_GRACE
	// *** from environment OPENAI_API_KEY
	// openai:gpt-6-luna from default, since OPENAI_API_KEY is set
}

func ExampleLoad_wrong() {
	_, err := config.Load(nil, []string{"LINGSERVE_RUN_RETENTION=soon", "LINGSERVE_RUN_MAX_LOG=1"})
	fmt.Println(err)
	// Output:
	// LINGSERVE_RUN_MAX_LOG: run.max_log: 1 is too small; expected at least 4KiB
	// LINGSERVE_RUN_RETENTION: run.retention: "soon" is invalid; expected a duration, such as 30s or 5m
}

func ExampleProvider_Missing() {
	c, err := config.Load(nil, []string{"DEEPSEEK_API_KEY=sk-secret"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, name := range []string{"deepseek", "qwen"} {
		p, _ := c.Provider(name)
		fmt.Printf("%s at %s: %q\n", p.Name, p.BaseURL, p.Missing())
	}
	fmt.Println(c.Model, "from", c.Source("model"))
	// Output:
	// deepseek at https://api.deepseek.com/v1: ""
	// qwen at https://dashscope.aliyuncs.com/compatible-mode/v1: "Qwen needs a key; set DASHSCOPE_API_KEY or providers.qwen.key"
	// deepseek:deepseek-flash from default, since DEEPSEEK_API_KEY is set
}
