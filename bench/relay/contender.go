package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/lingserve/lingserve/internal/program"
)

// workflow is one bot that answers in JSON.
const workflow = `name: relay
model: openai:bench-1
input:
  type: object
  required: [question]
  properties: {question: {type: string}}
bots:
  article:
    prompt: Answer in JSON.
    message: "{{ input.question }}"
    root: article
`

// prepare builds the server and writes what it reads.
func (b *bench) prepare() error {
	if _, err := b.server.Path(context.Background()); err != nil { // so that it is there when times are taken
		return err
	}
	folder := filepath.Join(b.dir, "workflows")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "relay.yaml"), []byte(workflow), 0o600)
}

// contender starts one of those that are compared, afresh.
func (b *bench) contender(name string) (*process, error) {
	switch name {
	case "proxy":
		return startPart("part:proxy", b.model.addr)
	case "lingserve":
		p, _, err := b.serve()
		return p, err
	case byHand:
		return startPart("part:byhand", b.model.addr)
	}
	return b.node(name)
}

// serve starts the server and says how long it took until it was ready.
func (b *bench) serve() (*process, time.Duration, error) {
	data, err := os.MkdirTemp(b.dir, "data")
	if err != nil {
		return nil, 0, err
	}
	path, err := b.server.Path(context.Background())
	if err != nil {
		return nil, 0, err
	}
	begin := time.Now()
	p, err := program.Start(context.Background(), path, b.dir, &program.Options{
		Args: []string{"--data", data, "--workflows", filepath.Join(b.dir, "workflows")},
		Env:  []string{"OPENAI_BASE_URL=http://" + b.model.addr + "/v1", "OPENAI_API_KEY=bench"},
	})
	if err != nil {
		return nil, 0, err
	}
	return &process{pid: p.Pid(), stop: p.Kill, addr: p.Addr()}, time.Since(begin), nil
}

// client starts the clients of a contender.
func (b *bench) client(kind string, of *process, do string, l load) (*process, error) {
	return startPart("part:client", "-kind", kind, "-addr", of.addr, "-do", do,
		"-streams", fmt.Sprint(l.streams), "-tokens", fmt.Sprint(l.tokens), "-pace", fmt.Sprint(l.pace))
}

// tell lets a client go on.
func (p *process) tell() error {
	_, err := p.in.Write([]byte("\n"))
	return err
}

// report waits for what a client has to say.
func (p *process) report() (report, error) {
	var r report
	line, err := p.line()
	if err != nil {
		return r, errors.Join(fmt.Errorf("the client has failed: %w", err), p.end())
	}
	return r, json.Unmarshal([]byte(line), &r)
}

func (p *process) ask() (report, error) {
	if err := p.tell(); err != nil {
		return report{}, err
	}
	return p.report()
}
