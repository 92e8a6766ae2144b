package telegram

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
)

// chats knows which groups have become supergroups: a supergroup has another id, and is to keep the session, the route and the
// window that the group had (CH-173). The id that the kernel knows is the group's.
type chats struct {
	path string // of the file; "" keeps nothing

	mu    sync.Mutex
	grown map[int64]int64 // of a group: its supergroup
	first map[int64]int64 // of a supergroup: the group that it was
}

// maxGrown bounds what is remembered: a bot sees one such message in the life of a group.
const maxGrown = 10_000

func openChats(path string) (*chats, error) {
	c := &chats{path: path, grown: map[int64]int64{}, first: map[int64]int64{}}
	if path == "" {
		return c, nil
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return nil, fmt.Errorf("telegram: read what is known of groups: %w", err)
	}
	if err := json.Unmarshal(data, &c.grown); err != nil {
		return nil, fmt.Errorf("telegram: %s is not what was written: %w", filepath.Base(path), err)
	}
	for from, to := range c.grown {
		c.first[to] = from
	}
	return c, nil
}

// learn notes that a group has become a supergroup.
func (c *chats) learn(from, to int64) error {
	if from == 0 || to == 0 || from == to {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.grown[from] == to || len(c.grown) >= maxGrown {
		return nil
	}
	c.grown[from], c.first[to] = to, from
	if c.path == "" {
		return nil
	}
	data, err := json.Marshal(c.grown)
	if err == nil {
		err = replace(c.path, data)
	}
	if err != nil {
		return fmt.Errorf("telegram: write what is known of groups: %w", err)
	}
	return nil
}

// conversation is the id by which the kernel knows a chat.
func (c *chats) conversation(id int64) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if from, ok := c.first[id]; ok {
		id = from
	}
	return strconv.FormatInt(id, 10)
}

// now is the id to send to.
func (c *chats) now(id int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if to, ok := c.grown[id]; ok {
		return to
	}
	return id
}

// replace writes a file whole or not at all.
func replace(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*") // 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // nothing is there when it was renamed
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
