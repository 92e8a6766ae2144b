package slack

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// threads knows in which threads the bot has written: who answers there need not mention it. The platform does not say so, and what
// it says of a thread on request is counted dearly.
type threads struct {
	path string // of the file; "" keeps nothing

	mu    sync.Mutex
	known map[threadKey]bool
	order []threadKey // the oldest first
}

type threadKey struct{ Conversation, Thread string }

// maxThreads bounds what is remembered: the oldest go first.
const maxThreads = 2000

func openThreads(path string) (*threads, error) {
	t := &threads{path: path, known: map[threadKey]bool{}}
	if path == "" {
		return t, nil
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return t, nil
	}
	if err != nil {
		return nil, fmt.Errorf("slack: read what is known of threads: %w", err)
	}
	var list [][2]string
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("slack: %s is not what was written: %w", filepath.Base(path), err)
	}
	for _, one := range list {
		t.add(threadKey{one[0], one[1]})
	}
	return t, nil
}

// add remembers a thread, and says whether it is a new one.
func (t *threads) add(k threadKey) bool {
	if t.known[k] {
		return false
	}
	t.known[k] = true
	t.order = append(t.order, k)
	if len(t.order) > maxThreads {
		delete(t.known, t.order[0])
		t.order = append([]threadKey(nil), t.order[1:]...)
	}
	return true
}

// learn notes that the bot has written in a thread.
func (t *threads) learn(conversation, thread string) error {
	if conversation == "" || thread == "" {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.add(threadKey{conversation, thread}) || t.path == "" {
		return nil
	}
	list := make([][2]string, len(t.order))
	for i, k := range t.order {
		list[i] = [2]string{k.Conversation, k.Thread}
	}
	data, err := json.Marshal(list)
	if err == nil {
		err = replace(t.path, data)
	}
	if err != nil {
		return fmt.Errorf("slack: write what is known of threads: %w", err)
	}
	return nil
}

func (t *threads) has(conversation, thread string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.known[threadKey{conversation, thread}]
}

// replace writes a file whole or not at all. After a crash of the machine an older one may be there: a thread that is forgotten asks
// for one mention.
func replace(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*") // 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // nothing is there when it was renamed
	_, err = f.Write(data)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
