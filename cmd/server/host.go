package main

import (
	"bufio"
	"context"
	"os"
	"path/filepath"
	"time"

	comma "github.com/lingserve/lingserve/agent/command"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tool/mcp"
)

// host does for the commands of agents what only this program can: it implements [agent.Host].
type host struct {
	servers *mcp.Client
	folder  string // for exports; "" is none
}

// Servers implements [agent.Host].
func (h *host) Servers(context.Context) ([]comma.Server, error) {
	var list []comma.Server
	for _, s := range h.servers.Status() {
		state := s.State
		switch {
		case state == mcp.Ready:
			state = "connected"
		case s.Reason != "":
			state += ": " + s.Reason
		}
		list = append(list, comma.Server{Name: s.Name, State: state, Tools: s.Tools})
	}
	return list, nil
}

// Export implements [agent.Host]: a tape is written to a new file below the data folder, as a whole or not at all.
func (h *host) Export(ctx context.Context, t *tape.Tape) (_ comma.Exported, err error) {
	if h.folder == "" {
		return comma.Exported{}, comma.Errorf("this server has no data folder; set data")
	}
	if err := os.MkdirAll(h.folder, 0o700); err != nil {
		return comma.Exported{}, err
	}
	f, err := os.CreateTemp(h.folder, ".export-*") // readable for the server's user only
	if err != nil {
		return comma.Exported{}, err
	}
	defer func() {
		_ = f.Close()
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	out := &counter{w: bufio.NewWriter(f)}
	if err := t.Export(ctx, out); err != nil {
		return comma.Exported{}, err
	}
	if err := out.w.Flush(); err != nil {
		return comma.Exported{}, err
	}
	if err := f.Sync(); err != nil {
		return comma.Exported{}, err
	}
	e := comma.Exported{Name: t.Name() + "-" + time.Now().UTC().Format("20060102-150405.000000") + ".jsonl", Entries: out.lines, Bytes: out.bytes}
	return e, os.Rename(f.Name(), filepath.Join(h.folder, e.Name))
}

// counter counts what is written through it.
type counter struct {
	w            *bufio.Writer
	lines, bytes int64
}

func (c *counter) Write(p []byte) (int, error) {
	for _, b := range p {
		if b == '\n' {
			c.lines++
		}
	}
	c.bytes += int64(len(p))
	return c.w.Write(p)
}
