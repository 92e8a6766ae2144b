package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// block is a piece of code that is run as a whole, or not at all.
type block struct {
	file         string // with the path of its package
	line, column int    // where it begins
	to           string // where it ends, as the profile writes it
}

// compare is the order of places: by file, and from its top.
func (b block) compare(other block) int {
	return cmp.Or(cmp.Compare(b.file, other.file), cmp.Compare(b.line, other.line), cmp.Compare(b.column, other.column), cmp.Compare(b.to, other.to))
}

// profile has the blocks that were run.
type profile map[block]bool

// readProfile reads a coverage profile from a file.
func readProfile(name string) (profile, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p, err := parseProfile(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return p, nil
}

// parseProfile reads a coverage profile: a line "mode: …", and then one for each block, "file:line.column,line.column statements count".
func parseProfile(r io.Reader) (profile, error) {
	p := profile{}
	lines := bufio.NewScanner(r)
	if lines.Scan(); !strings.HasPrefix(lines.Text(), "mode: ") {
		return nil, fmt.Errorf("line 1: %q; expected the mode of a coverage profile", lines.Text())
	}
	for n := 2; lines.Scan(); n++ {
		line := lines.Text()
		b, ran, ok := parseBlock(line)
		if !ok {
			return nil, fmt.Errorf("line %d: %q; expected file:line.column,line.column statements count", n, line)
		}
		if ran {
			p[b] = true
		}
	}
	return p, lines.Err()
}

func parseBlock(line string) (b block, ran, ok bool) {
	fields := strings.Fields(line)
	if len(fields) != 3 {
		return b, false, false
	}
	colon := strings.LastIndexByte(fields[0], ':')
	if colon < 0 {
		return b, false, false
	}
	from, to, ok := strings.Cut(fields[0][colon+1:], ",")
	if !ok {
		return b, false, false
	}
	above, beside, ok := strings.Cut(from, ".")
	if !ok {
		return b, false, false
	}
	b = block{file: fields[0][:colon], to: to}
	var errs [3]error
	var count uint64
	b.line, errs[0] = strconv.Atoi(above)
	b.column, errs[1] = strconv.Atoi(beside)
	count, errs[2] = strconv.ParseUint(fields[2], 10, 64)
	return b, count > 0, errs == [3]error{}
}
