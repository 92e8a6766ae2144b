package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// JS-12: the parse command.
func TestParseCommand(t *testing.T) {
	for _, tt := range []struct {
		name   string
		args   []string
		stdin  string
		status int
		stdout []string
		stderr string // a part of the one line
	}{
		{"events as lines", nil, `{"title":"sky","tags":["a",1.50]}`, 0, []string{
			`{"uri":"title","delta":"sky"}`,
			`{"uri":"tags","delta":[]}`,
			`{"uri":"tags/0","delta":"a"}`,
			`{"uri":"tags/1","delta":1.50}`,
		}, ""},
		{"a root", []string{"--root", "article"}, `{"a":1}`, 0, []string{
			`{"uri":"article","delta":{}}`,
			`{"uri":"article/a","delta":1}`,
		}, ""},
		{"a value at the top", nil, `17`, 0, []string{`{"uri":"","delta":17}`}, ""},
		{"completed values", []string{"--resolve"}, `{"a":["<x>\u0041"],"b":{"c": [1, 2]}}`, 0, []string{
			`{"uri":"a","delta":[]}`,
			`{"uri":"a/0","delta":"<x>\u0041"}`,
			`{"uri":"a/0","string":"<x>A"}`,
			`{"uri":"a","object":["<x>\u0041"]}`,
			`{"uri":"b","delta":{}}`,
			`{"uri":"b/c","delta":[]}`,
			`{"uri":"b/c/0","delta":1}`,
			`{"uri":"b/c/1","delta":2}`,
			`{"uri":"b/c","object":[1,2]}`,
			`{"uri":"b","object":{"c":[1,2]}}`,
			`{"uri":"","object":{"a":["<x>\u0041"],"b":{"c":[1,2]}}}`,
		}, ""},
		{"the final value", []string{"--final"}, "{\n \"b\": [1.50, {}],\n \"a\": \"\\u00e9\"\n}\n", 0, []string{
			`{"b":[1.50,{}],"a":"\u00e9"}`,
		}, ""},
		{"mended text, as it comes", []string{"--resolve"}, "{name: 'Ada', tags: [a, b", 0, []string{
			`{"uri":"name","delta":"Ada"}`,
			`{"uri":"name","string":"Ada"}`,
			`{"uri":"tags","delta":[]}`,
			`{"uri":"tags/0","delta":"a"}`,
			`{"uri":"tags/0","string":"a"}`,
			`{"uri":"tags/1","delta":"b"}`,
			`{"uri":"tags/1","string":"b"}`,
			`{"uri":"tags","object":["a","b"]}`,
			`{"uri":"","object":{"name":"Ada","tags":["a","b"]}}`,
		}, ""},
		{"the final value under a root", []string{"--final", "--root=x/y"}, "[1]", 0, []string{`{"x":{"y":[1]}}`}, ""},
		{"mended text", []string{"--final"}, "Here it is:\n```json\n{name: 'Ada', tags: ['a', 'b',], open: \"yes", 0, []string{
			`{"name":"Ada","tags":["a","b"],"open":"yes"}`,
		}, ""},
		{"mended text is refused when strict", []string{"--strict"}, "{\"a\":1,\n name: 2}", 1, []string{
			`{"uri":"a","delta":1}`,
		}, "line 2, column 2 "},
		{"an unfinished document when strict", []string{"--strict"}, "{\"a\":\n[1", 1, []string{
			`{"uri":"a","delta":[]}`,
		}, "line 2, column 3 "},
		{"the line of an error", []string{"--strict"}, "\n\n [1,\n  x]", 1, []string{
			`{"uri":"","delta":[]}`,
			`{"uri":"0","delta":1}`,
		}, "line 4, column 3 "},
		{"the final value of text that is not JSON", []string{"--final", "--strict"}, `{"a":1`, 1, nil, "line 1, column 7"},
		{"no document", nil, "I cannot help\nwith that.", 1, []string{
			`{"uri":"$reasoning_context","delta":"I cannot help\nwith that."}`,
		}, "the text ends without a JSON document"},
		{"nothing at all", []string{"--strict"}, "", 1, nil, "line 1, column 1"},
		{"too deep", []string{"--strict", "--final"}, "\n" + strings.Repeat("[", 600), 1, nil, "byte 513: the depth exceeds its limit"},
		{"an unknown flag", []string{"--stric"}, "", 2, nil, "unknown flag --stric"},
		{"a file name", []string{"x.json"}, "", 2, nil, `unexpected argument "x.json"`},
		{"a root that is no uri", []string{"--root", "/a"}, "", 2, nil, "empty segment"},
		{"flags that exclude each other", []string{"--final", "--resolve"}, "", 2, nil, "does not go with"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			status := command(append([]string{"parse"}, tt.args...), strings.NewReader(tt.stdin), &stdout, &stderr)
			if status != tt.status {
				t.Errorf("exit status %d, want %d", status, tt.status)
			}
			var lines []string
			for line := range strings.Lines(stdout.String()) {
				if !json.Valid([]byte(line)) || !strings.HasSuffix(line, "\n") {
					t.Errorf("not a line of JSON: %q", line)
				}
				lines = append(lines, strings.TrimSuffix(line, "\n"))
			}
			if diff := cmp.Diff(tt.stdout, lines); diff != "" {
				t.Error(diff)
			}
			said := stderr.String()
			if (said == "") != (status == 0) || strings.Count(said, "\n") > 1 || !strings.Contains(said, tt.stderr) {
				t.Errorf("standard error has %q, want one line with %q", said, tt.stderr)
			}
		})
	}
}

// lines hands each line that is written to a reader, so that a test can wait for it.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	for line := range strings.Lines(string(p)) {
		l <- line
	}
	return len(p), nil
}

func TestParseCommandPrintsEventsAsTheInputComes(t *testing.T) {
	stdin, input := io.Pipe()
	stdout := make(lines)
	status := make(chan int, 1)
	go func() {
		status <- command([]string{"parse"}, stdin, stdout, io.Discard)
		close(stdout)
	}()
	for _, step := range []struct{ in, out string }{
		{`{"a":"Ray`, `{"uri":"a","delta":"Ray"}`},
		{`leigh`, `{"uri":"a","delta":"leigh"}`},
		{`","b":[`, `{"uri":"b","delta":[]}`},
		{`7,`, `{"uri":"b/0","delta":7}`},
	} {
		if _, err := io.WriteString(input, step.in); err != nil {
			t.Fatal(err)
		}
		if got := <-stdout; got != step.out+"\n" { // the next piece is not written before this line is read
			t.Errorf("after %q: %q, want %q", step.in, got, step.out)
		}
	}
	if _, err := io.WriteString(input, "8]}"); err != nil {
		t.Fatal(err)
	}
	input.Close()
	for line := range stdout {
		if line != `{"uri":"b/1","delta":8}`+"\n" {
			t.Errorf("at the end: %q", line)
		}
	}
	if s := <-status; s != 0 {
		t.Errorf("exit status %d", s)
	}
}

// broken is a writer that fails, as when the program that reads has gone.
type broken struct{ err error }

func (b broken) Write([]byte) (int, error) { return 0, b.err }

// endless is a document that never ends.
type endless struct{ begun bool }

func (e *endless) Read(p []byte) (int, error) {
	if !e.begun {
		e.begun = true
		return copy(p, `[`), nil
	}
	return copy(p, `"x",`), nil
}

func TestParseCommandEndsQuietlyWhenNobodyReads(t *testing.T) {
	for _, err := range []error{syscall.EPIPE, io.ErrClosedPipe} {
		var stderr bytes.Buffer
		if s := command([]string{"parse"}, &endless{}, broken{err}, &stderr); s != 0 || stderr.Len() > 0 {
			t.Errorf("%v: exit status %d, standard error %q", err, s, &stderr)
		}
	}
}

func TestParseCommandSaysWhatItCannotReadOrWrite(t *testing.T) {
	var stderr bytes.Buffer
	if s := command([]string{"parse"}, &endless{}, broken{syscall.ENOSPC}, &stderr); s != 1 || !strings.Contains(stderr.String(), "no space left") {
		t.Errorf("exit status %d, standard error %q", s, &stderr)
	}
	stderr.Reset()
	stdin := io.MultiReader(strings.NewReader(`{"a":1,`), iotest.ErrReader(errors.New("the cable is cut")))
	var stdout bytes.Buffer
	if s := command([]string{"parse", "--strict"}, stdin, &stdout, &stderr); s != 1 || !strings.Contains(stderr.String(), "the cable is cut") {
		t.Errorf("exit status %d, standard error %q", s, &stderr)
	}
	if got := stdout.String(); got != "{\"uri\":\"a\",\"delta\":1}\n" {
		t.Errorf("before that came %q", got)
	}
}
