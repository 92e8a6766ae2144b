package adaptertest

import (
	"errors"
	"fmt"
	"iter"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/fakeproviders"
	"github.com/rogpeppe/go-internal/txtar"
)

// Recorded reads the streams in the txtar files that match pattern, and holds the chunks that come of them to those that the
// file says; update writes them there. Each is read as it is and a byte at a time: what comes out depends on neither. The
// sections of a file:
//
//	stream    bytes as they are; or
//	segments  Go strings, each a write of its own
//	header    of the answer, where it is not a stream's
//	status    of the answer, where it is not 200
//	end       "cut" or "hang" where the body does not end by itself
//	chunks    what comes out, as [List] writes it
func Recorded(t *testing.T, s Subject, pattern string, update bool) {
	if s.Model == "" {
		s.Model = "m"
	}
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no streams: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			script, want := parseScript(t, archive)
			for _, cut := range []func([]fakeproviders.Raw) []fakeproviders.Raw{asItIs, byteByByte} {
				var got string
				synctest.Test(t, func(t *testing.T) {
					script := script
					script.Raw = cut(script.Raw)
					up := &fakeproviders.Server{Script: always(script)}
					defer up.Close()
					got = List(s.bare(t, Options{Transport: up.Transport()}).Stream(t.Context(), adapter.Request{}))
				})
				if strings.Contains(got, "CANARY") { // SE-06
					t.Errorf("a key is in %s", got)
				}
				if update {
					setSection(archive, "chunks", got)
					if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
						t.Fatal(err)
					}
					want = got
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
			}
		})
	}
}

func parseScript(t *testing.T, archive *txtar.Archive) (script fakeproviders.Answer, chunks string) {
	t.Helper()
	script.Raw = []fakeproviders.Raw{}
	for _, f := range archive.Files {
		text := string(f.Data)
		switch f.Name {
		case "stream":
			script.Raw = append(script.Raw, fakeproviders.Raw{Bytes: text})
		case "segments":
			for line := range strings.Lines(text) {
				s, err := strconv.Unquote(strings.TrimSpace(line))
				if err != nil {
					t.Fatalf("%v: %s", err, line)
				}
				script.Raw = append(script.Raw, fakeproviders.Raw{Bytes: s})
			}
		case "header":
			script.Header = http.Header{}
			for line := range strings.Lines(text) {
				name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
				script.Header.Set(name, value)
			}
		case "status":
			status, err := strconv.Atoi(strings.TrimSpace(text))
			if err != nil {
				t.Fatal(err)
			}
			script.Status = status
		case "end":
			script.Raw = append(script.Raw, fakeproviders.Raw{Cut: text == "cut\n", Hang: text == "hang\n"})
		case "chunks":
			chunks = text
		default:
			t.Fatalf("unknown section %q", f.Name)
		}
	}
	if script.Status != 0 {
		for _, r := range script.Raw {
			script.Body += r.Bytes
		}
	}
	return script, chunks
}

func setSection(archive *txtar.Archive, name, text string) {
	for i, f := range archive.Files {
		if f.Name == name {
			archive.Files[i].Data = []byte(text)
			return
		}
	}
	archive.Files = append(archive.Files, txtar.File{Name: name, Data: []byte(text)})
}

func asItIs(raw []fakeproviders.Raw) []fakeproviders.Raw { return raw }

func byteByByte(raw []fakeproviders.Raw) []fakeproviders.Raw {
	out := []fakeproviders.Raw{}
	for _, r := range raw {
		if len(r.Bytes) > 32<<10 {
			return raw // takes too long, and shows nothing new
		}
		for i := range len(r.Bytes) {
			out = append(out, fakeproviders.Raw{Bytes: r.Bytes[i : i+1]})
		}
		if r.Cut || r.Hang {
			out = append(out, r)
		}
	}
	return out
}

// List writes down what a stream yields, a line for each pair.
func List(stream iter.Seq2[adapter.Chunk, error]) string {
	var b strings.Builder
	for c, err := range stream {
		var words []string
		word := func(name, value string) {
			if value != "" {
				words = append(words, name+" "+value)
			}
		}
		quoted := func(s string) string {
			if s == "" {
				return ""
			}
			return strconv.Quote(s)
		}
		word("model", c.Model)
		word("reasoning", quoted(c.Reasoning))
		word("text", quoted(c.Text))
		if call := c.ToolCall; call != nil {
			word("tool", strconv.Itoa(call.Index))
			word("id", quoted(call.ID))
			word("name", quoted(call.Name))
			word("arguments", quoted(call.Arguments))
		}
		if result := c.ToolResult; result != nil {
			word("result", strconv.Itoa(result.Index))
			word("id", quoted(result.ID))
			word("content", quoted(result.Content))
			if result.Failed {
				words = append(words, "failed")
			}
		}
		if b := c.Beside; b != nil {
			word("beside", b.Type)
			if b.Type == adapter.PartCall {
				words = append(words, strconv.Itoa(b.Index))
			}
			word("data", string(b.Data))
		}
		if u := c.Usage; u != nil {
			word("usage", fmt.Sprintf("%d+%d=%d", u.PromptTokens, u.CompletionTokens, u.TotalTokens))
		}
		word("finish", c.Finish)
		if err != nil {
			e, ok := errors.AsType[*adapter.Error](err)
			if !ok {
				e = &adapter.Error{Code: "other", Message: err.Error()}
			}
			word("error", e.Code)
			if e.Retryable {
				words = append(words, "retryable")
			}
			if e.ContextLength {
				words = append(words, "context-length")
			}
			if e.Status != 0 {
				word("status", strconv.Itoa(e.Status))
			}
			if e.RetryAfter != 0 {
				word("after", e.RetryAfter.String())
			}
			word("says", quoted(e.Message))
			if e.Cause != nil {
				word("\n  cause", quoted(e.Cause.Error()))
			}
		}
		if len(words) == 0 {
			words = []string{"nothing"}
		}
		b.WriteString(strings.Join(words, " ") + "\n")
	}
	return b.String()
}
