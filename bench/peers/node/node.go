// Package node runs scripts of clients that are published for Node, for the programs in bench/peers: jobs go in as lines of JSON, what
// a client has understood comes back as such. peer.mjs is the other side.
package node

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// Patience is for what takes milliseconds unless something is wrong.
const Patience = 15 * time.Second

// Script is a client's script that runs.
type Script struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	kill context.CancelFunc
}

// Start starts a script. Nothing of the environment that clients look at is handed on; their deprecations are no concern of
// ours.
func Start(ctx context.Context, script string, args ...string) (*Script, error) {
	ctx, kill := context.WithCancel(ctx)
	n := &Script{cmd: exec.CommandContext(ctx, "node", append([]string{"--no-deprecation", script}, args...)...), kill: kill}
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

// Ask hands a job to the script and reads what it says.
func (n *Script) Ask(ctx context.Context, job, answer any) error {
	line, err := json.Marshal(job)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, n.kill) // which ends the reading below
	defer stop()
	if _, err := n.in.Write(append(line, '\n')); err != nil {
		return err
	}
	said, err := n.out.ReadBytes('\n')
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("its script ended: %w", err)
	}
	return json.Unmarshal(said, answer)
}

// End lets the script end by itself; a script that does not is one whose client has left something open.
func (n *Script) End() error {
	ended := make(chan error, 1)
	_ = n.in.Close()
	go func() { ended <- n.cmd.Wait() }()
	timeout, cancel := context.WithTimeout(context.Background(), Patience)
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

// Stop ends the script at once.
func (n *Script) Stop() {
	n.kill()
	_ = n.cmd.Wait() // it was killed
}
