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
	file  *os.File // nil: the lines are not kept
	lines []string
}

var (
	quote   = strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`)
	unquote = strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\r`, "\r")
)

// openHistory reads a file of lines, and shortens it if it is too long. With an error, the history works, and is not kept.
func openHistory(name string) (*history, error) {
	h := new(history)
	if name == "" {
		return h, nil
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return h, err
	}
	data, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return h, err
	}
	rows := strings.SplitAfter(string(data), "\n")
	rows = rows[:len(rows)-1] // what has no end was cut off
	if len(rows) > maxHistory {
		rows = rows[len(rows)-maxHistory:]
		err := os.WriteFile(name+".new", []byte(strings.Join(rows, "")), 0o600)
		if err == nil {
			err = os.Rename(name+".new", name)
		}
		if err != nil {
			return h, err
		}
	}
	for _, row := range rows {
		h.lines = append(h.lines, unquote.Replace(strings.TrimSuffix(row, "\n")))
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600) // other processes may append, too
	if err != nil {
		return h, err
	}
	h.file = f
	return h, f.Chmod(0o600)
}

func (h *history) close() {
	if h.file != nil {
		h.file.Close()
	}
}

// Len implements [term.History].
func (h *history) Len() int { return min(len(h.lines), maxHistory) }

// At implements [term.History].
func (h *history) At(i int) string { return encode(h.lines[len(h.lines)-1-i]) }

// Add implements [term.History]. It does not keep lines that are blank, begin with a space, or repeat the last one.
func (h *history) Add(line string) {
	text := decode(line)
	if strings.TrimSpace(text) == "" || text[0] == ' ' || len(h.lines) > 0 && h.lines[len(h.lines)-1] == text {
		return
	}
	h.lines = append(h.lines, text)
	if h.file != nil {
		_, _ = h.file.WriteString(quote.Replace(text) + "\n") // without space on the disk, the next start has fewer lines
	}
}
