package main

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/lingserve/lingserve/internal/rawjson"
	"github.com/lingserve/lingserve/jsonuri"
)

// parseOptions are the flags of the command.
type parseOptions struct {
	root    string
	strict  bool
	resolve bool
	final   bool
	chunk   int
}

func parseCommand(s streams) *cobra.Command {
	var o parseOptions
	cmd := newCommand("parse", func([]string) error {
		switch {
		case o.chunk < 0:
			return usagef("--chunk is %d; expected 0 or more bytes", o.chunk)
		case o.final && o.resolve:
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
	set.IntVar(&o.chunk, "chunk", 0, "parse pieces of `N` bytes; 0: as the input arrives")
	return cmd
}

// parse reads stdin to its end or to the first error.
func parse(o parseOptions, stdin io.Reader, stdout io.Writer) error {
	out := eventWriter{bufio.NewWriterSize(stdout, mostGathered)}
	var handler jsonuri.Handler
	var document jsonuri.Document
	var failed error // of the document
	if o.final {
		handler.Delta = func(d jsonuri.Delta) { failed = cmp.Or(failed, document.Apply(d)) }
	} else {
		handler.Delta = out.delta
	}
	if o.resolve {
		handler.String = out.string
		handler.Object = out.object
	}
	in := positioned{parser: jsonuri.NewParser(handler, &jsonuri.Options{Root: o.root, Repair: !o.strict})}

	// A read returns what is there, be it one token or a full buffer, so to flush after each is to keep nobody waiting and
	// to write much at once where much has come.
	buf := make([]byte, max(64<<10, o.chunk))
	held := 0 // bytes in buf that are not a whole chunk yet
	for {
		n, readErr := stdin.Read(buf[held:])
		text := buf[:held+n]
		for o.chunk > 0 && len(text) >= o.chunk {
			if err := in.write(text[:o.chunk]); err != nil {
				return out.end(err)
			}
			text = text[o.chunk:]
		}
		if held = copy(buf, text); o.chunk == 0 || readErr != nil {
			held = 0
			if err := in.write(text); err != nil {
				return out.end(err)
			}
		}
		if err := cmp.Or(failed, out.flush()); err != nil {
			return err
		}
		if readErr == io.EOF {
			break
		}
		if readErr != nil {
			return fmt.Errorf("reading standard input: %w", readErr)
		}
	}
	err := in.close()
	if err = cmp.Or(err, failed); err == nil && o.final {
		out.line(document.AppendJSON(out.AvailableBuffer()))
	}
	return out.end(err)
}

// positioned is a parser whose errors all say line and column.
type positioned struct {
	parser *jsonuri.Parser
	lines  int   // line breaks before the chunk at hand
	start  int64 // offset of the first byte of the line at hand
	read   int64 // bytes before the chunk at hand
}

func (p *positioned) write(chunk []byte) error {
	_, err := p.parser.Write(chunk)
	if limit, ok := errors.AsType[*jsonuri.LimitError](err); ok {
		p.pass(chunk[:min(max(limit.Offset-p.read, 0), int64(len(chunk)))])
		return p.at(limit.Offset, err)
	}
	p.pass(chunk)
	return err
}

func (p *positioned) close() error {
	err := p.parser.Close()
	if errors.Is(err, jsonuri.ErrNoDocument) {
		return p.at(p.read, errors.New("the text ends without a JSON document"))
	}
	if _, ok := errors.AsType[*jsonuri.LimitError](err); ok {
		return p.at(p.read, err)
	}
	return err
}

func (p *positioned) pass(text []byte) {
	p.lines += bytes.Count(text, []byte{'\n'})
	if i := bytes.LastIndexByte(text, '\n'); i >= 0 {
		p.start = p.read + int64(i) + 1
	}
	p.read += int64(len(text))
}

func (p *positioned) at(offset int64, err error) error {
	return fmt.Errorf("line %d, column %d: %w", p.lines+1, max(offset-p.start, 0)+1, err)
}

// eventWriter gathers events and writes them in one piece.
type eventWriter struct{ *bufio.Writer }

// mostGathered keeps the memory for a large input small.
const mostGathered = 256 << 10

func (w eventWriter) delta(d jsonuri.Delta) { w.line(d.AppendJSON(w.AvailableBuffer())) }

func (w eventWriter) string(uri []byte, value string) {
	w.line(append(appendText(appendURI(w.AvailableBuffer(), uri), `,"string":`, value), '}'))
}

func (w eventWriter) object(uri, value []byte) {
	buf := append(appendURI(w.AvailableBuffer(), uri), `,"object":`...)
	w.line(append(append(buf, value...), '}'))
}

// line writes a line. Errors stay until flush returns them.
func (w eventWriter) line(buf []byte) { w.Write(append(buf, '\n')) }

func (w eventWriter) flush() error {
	if err := w.Flush(); err != nil {
		return fmt.Errorf("writing standard output: %w", err)
	}
	return nil
}

// end writes what is left and returns what the command failed of: it, where there is an error, or the writing.
func (w eventWriter) end(err error) error {
	return cmp.Or(err, w.flush())
}

func appendURI(dst, uri []byte) []byte { return appendText(dst, `{"uri":`, string(uri)) }

func appendText(dst []byte, member, text string) []byte {
	value, _ := rawjson.Marshal(text) // a string always can be encoded
	return append(append(dst, member...), value...)
}
