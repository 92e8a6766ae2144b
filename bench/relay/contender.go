package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"
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
	if b.binary == "" {
		b.binary = filepath.Join(b.dir, "lingserve")
		cmd := exec.Command("go", "build", "-o", b.binary, "./cmd/server")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build the server: %w\n%s", err, out)
		}
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
	}
	return b.node(name)
}

// serve starts the server and says how long it took until it was ready.
func (b *bench) serve() (*process, time.Duration, error) {
	data, err := os.MkdirTemp(b.dir, "data")
	if err != nil {
		return nil, 0, err
	}
	addr, err := freeAddress()
	if err != nil {
		return nil, 0, err
	}
	cmd := exec.Command(b.binary, "serve", "--addr", addr, "--data", data, "--workflows", filepath.Join(b.dir, "workflows"))
	cmd.Dir = b.dir
	cmd.Env = append(os.Environ(), "OPENAI_BASE_URL=http://"+b.model.addr+"/v1", "OPENAI_API_KEY=bench")
	log, err := os.Create(filepath.Join(data, "log"))
	if err != nil {
		return nil, 0, err
	}
	defer log.Close()
	cmd.Stderr = log
	begin := time.Now()
	p, err := start(cmd)
	if err != nil {
		return nil, 0, err
	}
	p.addr = addr
	for time.Since(begin) < 10*time.Second {
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			res, err := http.Get("http://" + addr + "/readyz")
			if err == nil {
				res.Body.Close()
				if res.StatusCode == http.StatusOK {
					return p, time.Since(begin), nil
				}
			}
		}
		time.Sleep(time.Millisecond)
	}
	p.stop()
	said, _ := os.ReadFile(log.Name())
	return nil, 0, fmt.Errorf("the server did not get ready: %s", said)
}

func freeAddress() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer ln.Close()
	return ln.Addr().String(), nil
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
		return r, errors.Join(fmt.Errorf("the client has failed: %w", err), p.cmd.Wait())
	}
	return r, json.Unmarshal([]byte(line), &r)
}

func (p *process) ask() (report, error) {
	if err := p.tell(); err != nil {
		return report{}, err
	}
	return p.report()
}
