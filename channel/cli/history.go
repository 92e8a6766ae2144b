package cli

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// maxHistory is how many lines are kept.
const maxHistory = 1000

// history is the lines that were typed, the oldest first. Without a file it is of this process alone.
type history struct {
	file  string
	lines []string
}

// openHistory reads the file, where there is one. What is returned is good to use beside an error, too.
func openHistory(file string) (*history, error) {
	h := &history{file: file}
	if file == "" {
		return h, nil
	}
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return h, nil
	}
	if err != nil {
		h.file = "" // what cannot be read is not written over
		return h, err
	}
	for row := range bytes.Lines(data) {
		if text := unquote(strings.TrimSuffix(string(row), "\n")); text != "" {
			h.lines = append(h.lines, text)
		}
	}
	h.lines = h.lines[max(0, len(h.lines)-maxHistory):]
	return h, os.Chmod(file, 0o600) // others may have made it
}

// at is the n-th line back.
func (h *history) at(n int) (string, bool) {
	if n < 1 || n > len(h.lines) {
		return "", false
	}
	return h.lines[len(h.lines)-n], true
}

// add keeps a line, unless it begins with a space, is blank, or is the last one again. An error is of the file, which is left alone
// from then on.
func (h *history) add(text string) error {
	if strings.TrimSpace(text) == "" || text[0] == ' ' {
		return nil
	}
	if last, _ := h.at(1); last == text {
		return nil
	}
	h.lines = append(h.lines, text)
	over := len(h.lines) > maxHistory
	if over {
		h.lines = append([]string(nil), h.lines[len(h.lines)-maxHistory:]...)
	}
	if h.file == "" {
		return nil
	}
	err := os.MkdirAll(filepath.Dir(h.file), 0o700)
	if err == nil && over {
		err = h.rewrite(text)
	} else if err == nil {
		err = h.append(text)
	}
	if err != nil {
		h.file = ""
	}
	return err
}

// append adds a line at the end of the file, which another process may do at the same time.
func (h *history) append(text string) error {
	f, err := os.OpenFile(h.file, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(quote(text) + "\n")
	return errors.Join(err, f.Close())
}

// rewrite replaces the file by its last lines and a new one: those of other processes are among them.
func (h *history) rewrite(text string) error {
	now, err := openHistory(h.file)
	if err != nil {
		return err
	}
	list := append(now.lines, text)
	var b strings.Builder
	for _, l := range list[max(0, len(list)-maxHistory):] {
		b.WriteString(quote(l))
		b.WriteByte('\n')
	}
	f, err := os.CreateTemp(filepath.Dir(h.file), ".history-*") // readable for its user alone
	if err != nil {
		return err
	}
	_, err = f.WriteString(b.String())
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), h.file)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

var (
	quoter   = strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`)
	unquoter = strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\r`, "\r")
)

// quote makes one row of a line that has several.
func quote(text string) string { return quoter.Replace(text) }

func unquote(row string) string { return unquoter.Replace(row) }
