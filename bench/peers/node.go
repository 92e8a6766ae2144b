package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// node is a client's script that runs.
type node struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	kill context.CancelFunc
}

// startNode starts a script. Nothing of the environment that clients look at is handed on; their deprecations are no concern of
// ours.
func startNode(ctx context.Context, script string, args ...string) (*node, error) {
	ctx, kill := context.WithCancel(ctx)
	n := &node{cmd: exec.CommandContext(ctx, "node", append([]string{"--no-deprecation", script}, args...)...), kill: kill}
	n.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "NO_COLOR=1"}
	n.cmd.Stderr = os.Stderr
	var err error
	if n.in, err = n.cmd.StdinPipe(); err == nil {
		var out io.ReadCloser
		if out, err = n.cmd.StdoutPipe(); err == nil {
			n.out = bufio.NewReader(out)
			err = n.cmd.Start()
		}
	}
	if err != nil {
		kill()
		return nil, err
	}
	return n, nil
}

// ask hands a job to the script and returns what it says.
func (n *node) ask(ctx context.Context, job any) (*said, error) {
	line, err := json.Marshal(job)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, n.kill) // which ends the reading below
	defer stop()
	if _, err := n.in.Write(append(line, '\n')); err != nil {
		return nil, err
	}
	answer, err := n.out.ReadBytes('\n')
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, fmt.Errorf("its script ended: %w", err)
	}
	got := new(said)
	return got, json.Unmarshal(answer, got)
}

// end lets the script end by itself; a script that does not is one whose client has left something open.
func (n *node) end() error {
	ended := make(chan error, 1)
	_ = n.in.Close()
	go func() { ended <- n.cmd.Wait() }()
	timeout, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	select {
	case err := <-ended:
		n.kill()
		return err
	case <-timeout.Done():
		n.kill()
		<-ended
		return errors.New("the client keeps its process from ending")
	}
}

func (n *node) stop() {
	n.kill()
	_ = n.cmd.Wait() // it was killed
}

// value is an object as a client has handed it out, and the type in expected.ts that it should have.
type value struct {
	Type  string          `json:"type"`
	Value json.RawMessage `json:"value"`
	From  string          `json:"from"`
}

// checkTypes says which values are not of their types.
func checkTypes(ctx context.Context, dir string, values []value) (wrong []string, err error) {
	if len(values) == 0 {
		return nil, nil
	}
	text, err := json.Marshal(values)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "node", filepath.Join(dir, "types.mjs"))
	cmd.Stdin = bytes.NewReader(text)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	var problems []struct{ From, Type, Message, Value string }
	if err := json.Unmarshal(out, &problems); err != nil {
		return nil, err
	}
	for _, p := range problems {
		wrong = append(wrong, fmt.Sprintf("%s: %s: %s\n%s", p.From, p.Type, p.Message, p.Value))
	}
	return wrong, nil
}
