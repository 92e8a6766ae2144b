package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"runtime"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/openai"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/web"
)

// profiledPart is the server as ./cmd/server puts it together, with its profiles beside it: for finding out where time and
// memory go, not for the comparison.
func profiledPart(args []string) error {
	f := flag.NewFlagSet("profiled", flag.ContinueOnError)
	model := f.String("model", "", "address of the model")
	folder := f.String("workflows", "", "folder of the workflows")
	data := f.String("data", "", "folder for what the server keeps")
	fine := f.Bool("fine", false, "sample small allocations too, which takes time")
	profiles := f.String("profiles", "127.0.0.1:6060", "address of the profiles")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *fine {
		runtime.MemProfileRate = 4 << 10
	}
	provider, err := openai.New(openai.Options{BaseURL: "http://" + *model + "/v1", Key: "bench"})
	if err != nil {
		return err
	}
	models := &adapter.Registry{Default: "openai:bench-1"}
	models.Register("openai", provider)
	workflows, err := flow.Open(*folder)
	if err != nil {
		return err
	}
	s, err := web.New(web.Options{Options: run.Options{Workflows: workflows, Models: models, Log: slog.New(slog.DiscardHandler)}, Data: *data})
	if err != nil {
		return err
	}
	ln, err := s.Listen(context.Background(), "127.0.0.1:0")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	go func() { fmt.Println(http.ListenAndServe(*profiles, mux)) }()
	fmt.Println(ln.Addr())
	return s.HTTPServer().Serve(ln)
}
