package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/lingserve/lingserve/jsonuri"
)

// parseOptions are the flags of the command.
type parseOptions struct {
	root                   string
	strict, resolve, final bool
}

func parseCommand(s streams) *cobra.Command {
	var o parseOptions
	cmd := newCommand("parse", func([]string) error {
		if o.final && o.resolve {
			return usagef("--final does not go with --resolve, because it prints no events")
		}
		if _, err := jsonuri.Parse(o.root); err != nil {
			return usagef("--root: %v", err)
		}
		err := parse(o, s.in, s.out)
		if errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe) {
			return nil // the reader of the output needs no more
		}
		return err
	})
	set := cmd.Flags()
	set.StringVar(&o.root, "root", "", "put `URI` in front of every uri")
	set.BoolVar(&o.strict, "strict", false, "repair nothing; accept only RFC 8259")
	set.BoolVar(&o.resolve, "resolve", false, "also print each complete string, object and array")
	set.BoolVar(&o.final, "final", false, "print only the final document")
	return cmd
}

// parse reads stdin to its end or to the first error. It prints the events of each read at once.
func parse(o parseOptions, stdin io.Reader, stdout io.Writer) error {
	out := bufio.NewWriterSize(stdout, 256<<10) // which remembers its errors until the next flush
	var document jsonuri.Document
	var invalid error // of the document
	handler := jsonuri.Handler{Delta: func(d jsonuri.Delta) { out.Write(append(d.AppendJSON(out.AvailableBuffer()), '\n')) }}
	if o.final {
		handler.Delta = func(d jsonuri.Delta) { invalid = cmp.Or(invalid, document.Apply(d)) }
	}
	if o.resolve {
		handler.String = func(uri []byte, value string) {
			_ = printJSON(out, struct {
				URI    string `json:"uri"`
				String string `json:"string"`
			}{string(uri), value})
		}
		handler.Object = func(uri, value []byte) {
			_ = printJSON(out, struct {
				URI    string          `json:"uri"`
				Object json.RawMessage `json:"object"`
			}{string(uri), value})
		}
	}
	parser := jsonuri.NewParser(handler, &jsonuri.Options{Root: o.root, Repair: !o.strict})
	buf := make([]byte, 64<<10)
	for {
		n, readErr := stdin.Read(buf)
		_, err := parser.Write(buf[:n])
		if err := cmp.Or(err, invalid, out.Flush()); err != nil {
			return err
		}
		if readErr == io.EOF {
			break
		}
		if readErr != nil {
			return fmt.Errorf("reading standard input: %w", readErr)
		}
	}
	err := cmp.Or(parser.Close(), invalid)
	if errors.Is(err, jsonuri.ErrNoDocument) {
		err = errors.New("the text ends without a JSON document")
	}
	if err == nil && o.final {
		out.Write(append(document.AppendJSON(nil), '\n'))
	}
	return cmp.Or(err, out.Flush())
}
