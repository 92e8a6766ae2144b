package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/lingserve/lingserve/internal/rawjson"
)

// printJSON prints a value as JSON on a line.
func printJSON(w io.Writer, v any) error {
	text, err := rawjson.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(text, '\n'))
	return err
}

// listing prints rows: for people in columns below a heading, or else each as JSON on a line.
type listing struct {
	json bool
	w    io.Writer
	out  *tabwriter.Writer
	err  error // the first one; nothing is printed after it
}

func newListing(w io.Writer, json bool, heading ...string) *listing {
	l := &listing{json: json, w: w, out: tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	if !json {
		l.columns(heading)
	}
	return l
}

// add prints a row: row itself as JSON, or its columns.
func (l *listing) add(row any, columns ...string) {
	switch {
	case l.err != nil:
	case l.json:
		l.err = printJSON(l.w, row)
	default:
		l.columns(columns)
	}
}

func (l *listing) columns(columns []string) {
	_, l.err = fmt.Fprintln(l.out, strings.Join(columns, "\t"))
}

// end prints the rest, and returns the first error.
func (l *listing) end() error { return cmp.Or(l.err, l.out.Flush()) }
