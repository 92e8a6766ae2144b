package cli

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// maxHistory is how many lines are kept.
const maxHistory = 1000

// history has the lines that were typed, the oldest first, for [term.Terminal]. A file keeps them for the next start.
type history struct {
	name  string // of the file; "": the lines are not kept
	lines []string
}

// openHistory reads a file of lines, and shortens it if it is too long. With an error, the history works, and is not kept.
func openHistory(name string) (*history, error) {
	if name == "" {
		return new(history), nil
	}
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		err = os.MkdirAll(filepath.Dir(name), 0o700)
	}
	rows := strings.SplitAfter(string(data), "\n")
	rows = rows[:len(rows)-1] // what has no end was cut off
	if len(rows) > maxHistory {
		rows = rows[len(rows)-maxHistory:]
		if err = os.WriteFile(name+".new", []byte(strings.Join(rows, "")), 0o600); err == nil {
			err = os.Rename(name+".new", name)
		}
	}
	if err != nil {
		return new(history), err
	}
	h := &history{name: name}
	for _, row := range rows {
		h.lines = append(h.lines, Visible(strings.TrimSuffix(row, "\n")))
	}
	return h, nil
}

// Len implements [term.History].
func (h *history) Len() int { return min(len(h.lines), maxHistory) }

// At implements [term.History].
func (h *history) At(i int) string { return h.lines[len(h.lines)-1-i] }

// Add implements [term.History]. It does not keep lines that are blank, begin with a space, or repeat the last one.
func (h *history) Add(line string) {
	if strings.TrimSpace(line) == "" || line[0] == ' ' || len(h.lines) > 0 && h.lines[len(h.lines)-1] == line {
		return
	}
	h.lines = append(h.lines, line)
	if h.name == "" {
		return
	}
	// Other processes may append, too. Without space on the disk, the next start has fewer lines.
	if f, err := os.OpenFile(h.name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600); err == nil {
		_, _ = f.WriteString(line + "\n")
		f.Close()
	}
}
