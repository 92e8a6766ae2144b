package agent

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// defaultInstructions are what an agent without its own is told.
const defaultInstructions = "You are a helpful assistant. Answer in the language of the question. " +
	"Use the tools you have where they help, and say so when something cannot be found out or done. " +
	"Earlier parts of a conversation may stand in an anchor, as a summary or a state: take it for what has been agreed so far."

// maxAgentsFile is how much is read of a workspace's AGENTS.md, in bytes.
const maxAgentsFile = 64 << 10

// agentsFile is a workspace's AGENTS.md. It is safe for concurrent use.
type agentsFile struct {
	dir string

	mu    sync.Mutex
	size  int64
	mtime time.Time
	text  string
}

// read returns what the file says, which is read again when the file has changed. A file that is missing, no regular file, or
// outside of the workspace says nothing.
func (f *agentsFile) read() string {
	if f.dir == "" {
		return ""
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	// The name is looked at before it is opened, since opening a pipe would wait for its writer.
	info, err := os.Stat(filepath.Join(f.dir, "AGENTS.md"))
	if err != nil || !info.Mode().IsRegular() {
		f.size, f.mtime, f.text = 0, time.Time{}, ""
		return ""
	}
	if info.Size() == f.size && info.ModTime().Equal(f.mtime) {
		return f.text
	}
	f.text = f.load()
	f.size, f.mtime = info.Size(), info.ModTime()
	return f.text
}

func (f *agentsFile) load() string {
	root, err := os.OpenRoot(f.dir)
	if err != nil {
		return ""
	}
	defer root.Close()
	file, err := root.Open("AGENTS.md")
	if err != nil {
		return ""
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxAgentsFile))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(strings.ToValidUTF8(string(text), ""))
}
