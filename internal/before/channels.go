// Package before takes in what earlier versions kept in other forms, at the first start. A folder or file that was taken in is renamed to
// NAME.before, and nothing reads it any more.
package before

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/webhook"
	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/file"
)

// channels takes in the folder of the channels.
type channels struct {
	root vfs.Folder
	e    store.Engine
	log  *slog.Logger
}

// Channels takes in what channels kept in folders, and puts it into the tables of an engine in files: pairs, windows, sessions, what was
// learned, answers, events, and replies that wait to be sent. What is in a table already stays. If it fails, it can be called again. The
// error is [store.ErrInUse] if a server uses one of the folders.
func Channels(ctx context.Context, dir, tables vfs.Dir, log *slog.Logger) (err error) {
	root, err := dir.OpenExisting()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return vfs.Explain(err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	c := &channels{root: root, log: log}
	found := c.folders()
	if len(found) == 0 {
		return nil
	}
	unlock, err := lock(root, "journal/lock") // a server of an earlier version locks it while it uses the folders
	if err != nil {
		return err
	}
	defer unlock()
	if c.e, err = file.Open(tables, file.Options{Log: log}); err != nil {
		return err
	}
	for _, name := range found {
		n, failed := takers[name](c, ctx)
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("take in the folder %s of an earlier version: %w", name, failed))
			continue
		}
		log.InfoContext(ctx, "took in a folder of an earlier version", "folder", name, "records", n)
	}
	if err = errors.Join(err, c.e.Close()); err != nil { // which makes all durable
		return err
	}
	unlock() // a folder with an open file cannot be renamed everywhere
	for _, name := range found {
		err = errors.Join(err, rename(root, name))
	}
	return vfs.Explain(err)
}

// takers take in a folder, and return how many records there were.
var takers = map[string]func(*channels, context.Context) (int, error){
	"pairs": (*channels).takePairs,
	"windows": func(c *channels, ctx context.Context) (int, error) {
		return c.takeTexts(ctx, "windows", ".window", channel.WindowTable, nil)
	},
	"sessions": func(c *channels, ctx context.Context) (int, error) {
		return c.takeTexts(ctx, "sessions", ".session", channel.SessionTable, nil)
	},
	"state":   (*channels).takeState,
	"journal": (*channels).takeJournal,
	"outbox":  (*channels).takeOutbox,
}

// folders returns the names of the folders that are to be taken in.
func (c *channels) folders() (names []string) {
	for name := range takers {
		if info, err := c.root.Stat(name); err == nil && info.IsDir() {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// lock locks a file that a server of an earlier version locks, if there is one. The error is [store.ErrInUse] if a server has locked it.
func lock(root vfs.Folder, name string) (unlock func(), err error) {
	f, err := root.Open(name, os.O_RDWR)
	if errors.Is(err, fs.ErrNotExist) {
		return func() {}, nil
	}
	if err != nil {
		return nil, vfs.Explain(err)
	}
	ok, err := f.TryLock()
	if err == nil && !ok {
		err = store.ErrInUse
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return sync.OnceFunc(func() { _ = errors.Join(f.Unlock(), f.Close()) }), nil
}

// rename renames a folder or file that was taken in.
func rename(root vfs.Folder, name string) error {
	to := name + ".before"
	for i := 2; ; i++ {
		if _, err := root.Stat(to); errors.Is(err, fs.ErrNotExist) {
			break
		} else if err != nil {
			return err
		}
		to = fmt.Sprint(name, ".before", i)
	}
	return errors.Join(root.Rename(name, to), root.SyncFolder("."))
}

// old is a file of an earlier version.
type old struct {
	name string // without its end
	at   time.Time
	text []byte
}

// files reads the files of a folder whose names have an end, the one that was changed longest ago first.
func (c *channels) files(folder, end string) ([]old, error) {
	names, err := vfs.Names(c.root, folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, vfs.Explain(err)
	}
	var all []old
	for _, file := range names {
		name, ok := strings.CutSuffix(file, end)
		if !ok || strings.HasPrefix(name, ".") { // a file that was being written
			continue
		}
		info, err := c.root.Stat(path.Join(folder, file))
		if err != nil {
			return nil, vfs.Explain(err)
		}
		text, err := vfs.ReadFile(c.root, path.Join(folder, file))
		if err != nil {
			return nil, vfs.Explain(err)
		}
		all = append(all, old{name, info.ModTime(), text})
	}
	slices.SortFunc(all, func(a, b old) int { return a.at.Compare(b.at) })
	return all, nil
}

// takeTexts takes in a folder with a text in each file. A text for which check returns an error is left out.
func (c *channels) takeTexts(ctx context.Context, folder, end string, table channel.TextTable, check func(old) error) (n int, err error) {
	texts, err := channel.OpenTexts(ctx, c.e, table, c.log)
	if err != nil {
		return 0, err
	}
	all, err := c.files(folder, end)
	if err != nil {
		return 0, err
	}
	for _, f := range all {
		if check != nil {
			if err := check(f); err != nil {
				c.log.ErrorContext(ctx, "a file of an earlier version is damaged and was not taken in", "file", path.Join(folder, f.name+end), "error", err)
				continue
			}
		}
		if err := take(ctx, texts, f.name, f.text); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// take saves a text, unless there is one.
func take(ctx context.Context, texts channel.Texts, name string, text []byte) error {
	return texts.Change(ctx, name, func(there []byte) ([]byte, error) {
		if there != nil {
			return there, nil
		}
		return text, nil
	})
}

func (c *channels) takePairs(ctx context.Context) (int, error) {
	return c.takeTexts(ctx, "pairs", ".json", channel.PairTable, func(f old) error {
		alone := channel.NewTexts(0)
		err := take(ctx, alone, f.name, f.text)
		if err == nil {
			_, err = channel.NewPairs(alone).List(ctx)
		}
		return err
	})
}

// takeState takes in what channels have learned, and the answers that webhooks keep.
func (c *channels) takeState(ctx context.Context) (n int, err error) {
	learned, err := channel.OpenTexts(ctx, c.e, channel.LearnedTable, c.log)
	if err != nil {
		return 0, err
	}
	results, err := webhook.OpenResults(ctx, c.e)
	if err != nil {
		return 0, err
	}
	var logins []string
	err = c.root.List("state", func(e fs.DirEntry) bool {
		if e.IsDir() {
			logins = append(logins, e.Name())
		}
		return true
	})
	if err != nil {
		return 0, vfs.Explain(err)
	}
	for _, login := range logins {
		known, err := c.files(path.Join("state", login), ".json") // chats.json of Telegram, threads.json of Slack
		if err != nil {
			return n, err
		}
		for _, f := range known {
			if err := take(ctx, learned, login, f.text); err != nil {
				return n, err
			}
			n++
		}
		answers, err := c.files(path.Join("state", login, "results"), ".json")
		if err != nil {
			return n, err
		}
		for _, f := range answers {
			var of struct{ Session string }
			if json.Unmarshal(f.text, &of) != nil {
				continue // its sender is told that the message was accepted
			}
			if err := results.Import(ctx, login, f.name, of.Session, f.text, time.Since(f.at)); err != nil {
				return n, err
			}
			n++
		}
	}
	return n, nil
}
