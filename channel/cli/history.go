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
	file  string // "": the lines are not kept
	lines []string
	warn  func(what string) // the file is unreadable or not writable
}

var (
	quote   = strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`)
	unquote = strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\r`, "\r")
)

func openHistory(file string, warn func(what string)) *history {
	h := &history{file: file, warn: warn}
	if file == "" {
		return h
	}
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return h
	}
	if err == nil {
		err = os.Chmod(file, 0o600)
	}
	if err != nil {
		h.fail("unreadable")
		return h
	}
	rows := strings.SplitAfter(string(data), "\n")
	rows = rows[:len(rows)-1]
	if len(rows) > maxHistory {
		rows = rows[len(rows)-maxHistory:]
		h.rewrite(strings.Join(rows, ""))
	}
	for _, row := range rows {
		h.lines = append(h.lines, unquote.Replace(strings.TrimSuffix(row, "\n")))
	}
	return h
}

// fail leaves the file alone from now on.
func (h *history) fail(what string) {
	h.file = ""
	h.warn(what)
}

// rewrite replaces the file by its last rows.
func (h *history) rewrite(rows string) {
	temporary := h.file + ".new"
	err := os.WriteFile(temporary, []byte(rows), 0o600)
	if err == nil {
		err = os.Rename(temporary, h.file)
	}
	if err != nil {
		h.fail("not writable")
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
	if h.file == "" {
		return
	}
	err := os.MkdirAll(filepath.Dir(h.file), 0o700)
	var f *os.File
	if err == nil { // other processes may append, too
		f, err = os.OpenFile(h.file, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	}
	if err == nil {
		_, err = f.WriteString(quote.Replace(text) + "\n")
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		h.fail("not writable")
	}
}
