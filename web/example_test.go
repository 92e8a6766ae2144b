package web_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/web"
)

// A workflow in Go, served: its run is started with POST and read as Server-Sent Events.
func Example() {
	workflows := new(flow.Registry)
	workflows.Register(flow.Func("greet", "Greets somebody.", []byte(`{"type":"object","required":["name"],
		"properties":{"name":{"type":"string"}}}`),
		func(ctx context.Context, m *ling.Manager, input map[string]any) error {
			return m.SendEvent("greeting", "hello, "+input["name"].(string))
		}))
	var o web.Options
	o.Workflows = workflows
	server, err := web.New(o)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	site := httptest.NewServer(server.Handler())
	defer site.Close()

	resp, err := http.Post(site.URL+"/v1/runs?format=sse", "application/json",
		strings.NewReader(`{"workflow":"greet","input":"world"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), ": "); ok && name != "id" && name != "retry" && !strings.Contains(value, `"run"`) {
			fmt.Println(lines.Text())
		}
	}
	// Output:
	// event: started
	// event: greeting
	// data: "hello, world"
	// event: finished
	// data: {"status":"completed"}
}
