package before

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/lingserve/lingserve/internal/crcline"
	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/store/file"
	"github.com/lingserve/lingserve/web/once"
	"github.com/lingserve/lingserve/web/once/table"
)

const keysFile = "keys.txt"

// Keys takes in the Idempotency-Keys that a single server kept in the file keys.txt of its data folder, and puts them into the tables of an
// engine in files. Keys are known for as long as retention says. If it fails, it can be called again. The error is [store.ErrInUse] if a
// server uses one of the folders.
func Keys(ctx context.Context, data, tables vfs.Dir, retention time.Duration, log *slog.Logger) (err error) {
	root, err := data.OpenExisting()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return vfs.Explain(err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	text, err := vfs.ReadFile(root, keysFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return vfs.Explain(err)
	}
	unlock, err := lock(root, "lock")
	if err != nil {
		return err
	}
	defer unlock()
	claims := readKeys(text, log)
	if err := importKeys(ctx, tables, claims, table.Options{Retention: retention, Log: log}); err != nil {
		return fmt.Errorf("take in the file %s of an earlier version: %w", keysFile, err)
	}
	log.InfoContext(ctx, "took in a file of an earlier version", "file", keysFile, "records", len(claims))
	return vfs.Explain(rename(root, keysFile))
}

// importKeys puts claims into the tables. They are durable when it returns.
func importKeys(ctx context.Context, tables vfs.Dir, claims map[[16]byte]once.Claim, o table.Options) error {
	e, err := file.Open(tables, file.Options{Log: o.Log})
	if err != nil {
		return err
	}
	keys, err := table.Open(ctx, e, o)
	if err == nil {
		err = errors.Join(keys.Import(ctx, claims), keys.Close())
	}
	return errors.Join(err, e.Close())
}

// readKeys reads the lines of the file. The last line of a key says where it leads to; one that was freed has a line that is long expired.
func readKeys(text []byte, log *slog.Logger) map[[16]byte]once.Claim {
	claims := map[[16]byte]once.Claim{}
	at := 0
	for line := range bytes.Lines(text) {
		hash, c, ok := parseKey(line)
		switch {
		case ok:
			claims[hash] = c
		case bytes.HasSuffix(line, []byte("\n")): // else it was being written when the machine or the process ended
			log.Error("cannot read an idempotency key", "file", keysFile, "offset", at)
		}
		at += len(line)
	}
	return claims
}

// parseKey reads a line: what the key and its request hash to, the run, the time in seconds, "by" and the owner if it has a name, the
// workflow, or "agent" and the agent. The last word is the checksum of all before it, which the lines of the first versions do not have.
func parseKey(line []byte) (hash [16]byte, c once.Claim, ok bool) {
	text, whole := strings.CutSuffix(string(line), "\n")
	if at := len(text) - len(" 00000000"); at > 0 && text[at] == ' ' && !strings.HasSuffix(text, `"`) {
		if fmt.Sprintf(" %08x", crcline.Sum(line[:at])) != text[at:] {
			return hash, c, false
		}
		text = text[:at]
	}
	f := strings.SplitN(text, " ", 5)
	if !whole || len(f) != 5 || len(f[0]) != 2*len(hash) || len(f[1]) != 2*len(c.Hash) || f[2] == "" {
		return hash, c, false
	}
	_, err1 := hex.Decode(hash[:], []byte(f[0]))
	_, err2 := hex.Decode(c.Hash[:], []byte(f[1]))
	seconds, err3 := strconv.ParseInt(f[3], 10, 64)
	rest, owned := strings.CutPrefix(f[4], "by ")
	if owned {
		c.Owner, rest, _ = strings.Cut(rest, " ")
	}
	quoted, isAgent := strings.CutPrefix(rest, "agent ")
	name, err4 := strconv.Unquote(quoted)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return hash, c, false
	}
	of := struct { // as package run reads it
		Workflow string `json:"workflow,omitempty"`
		Agent    string `json:"agent,omitempty"`
		Owner    string `json:"owner,omitempty"`
	}{Workflow: name, Owner: c.Owner}
	if isAgent {
		of.Workflow, of.Agent = "", name
	}
	c.Run, c.At = f[2], time.Unix(seconds, 0)
	c.Of, _ = json.Marshal(of) // three texts
	return hash, c, len(c.Of) <= once.MaxOf
}
