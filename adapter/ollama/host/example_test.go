package host_test

import (
	"fmt"

	"github.com/lingserve/lingserve/adapter/ollama/host"
)

func ExampleParse() {
	for _, s := range []string{"", "0.0.0.0", "gpu-box:1234", "https://models.example"} {
		address, err := host.Parse(s)
		fmt.Println(address, err)
	}
	// Output:
	// http://127.0.0.1:11434 <nil>
	// http://127.0.0.1:11434 <nil>
	// http://gpu-box:1234 <nil>
	// https://models.example:443 <nil>
}
