package cli_test

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/lingserve/lingserve/internal/cells"
)

// vt is a terminal as far as this package may use one: whatever else is sent to it is a fault.
type vt struct {
	width, height int
	rows          [][]glyph // all that there ever were; the screen is the last ones
	top           int       // the first row of the screen
	row, col      int       // of the cursor; row counts from the first of all
	pending       bool      // the row is full, and the next character goes to the next one
	sgr           string
	held          []byte // of a sequence that has not come as a whole
	faults        []string
	pastes        bool // are told apart
}

type glyph struct {
	text  string // "" is the second half of a wide one
	style string
}

func newVT(width, height int) *vt { return &vt{width: width, height: height, rows: [][]glyph{nil}} }

func (v *vt) fault(format string, args ...any) {
	v.faults = append(v.faults, fmt.Sprintf(format, args...))
}

func (v *vt) Write(p []byte) (int, error) {
	data := append(v.held, p...)
	v.held = nil
	for len(data) > 0 {
		n := v.one(data)
		if n == 0 {
			v.held = append([]byte(nil), data...)
			break
		}
		data = data[n:]
	}
	return len(p), nil
}

// one takes one character or sequence; 0 where it is not whole.
func (v *vt) one(data []byte) int {
	switch c := data[0]; {
	case c == '\r':
		v.col, v.pending = 0, false
	case c == '\n':
		v.down()
	case c == 0x1b:
		if len(data) < 2 {
			return 0
		}
		if data[1] != '[' {
			v.fault("the sequence ESC %q", data[1])
			return 2
		}
		for n := 2; n < len(data); n++ {
			if data[n] >= 0x40 && data[n] <= 0x7e {
				v.control(string(data[2:n]), data[n])
				return n + 1
			}
		}
		return 0
	case c < ' ' || c == 0x7f:
		v.fault("the control character %#02x", c)
	default:
		if !utf8.FullRune(data) {
			return 0
		}
		r, n := utf8.DecodeRune(data)
		if r >= 0x80 && r < 0xa0 || r == utf8.RuneError && n == 1 {
			v.fault("the bytes %x", data[:n])
		}
		v.put(r)
		return n
	}
	return 1
}

func (v *vt) control(params string, final byte) {
	n, _ := strconv.Atoi(params)
	n = max(n, 1)
	switch {
	case final == 'A':
		v.row = max(v.top, v.row-n)
		v.pending = false
	case final == 'B':
		v.row = min(v.top+v.height-1, v.row+n)
		for len(v.rows) <= v.row {
			v.rows = append(v.rows, nil)
		}
		v.pending = false
	case final == 'D':
		v.col = max(0, v.col-n)
		v.pending = false
	case final == 'C':
		v.col = min(v.width-1, v.col+n)
		v.pending = false
	case final == 'J' && params == "":
		v.cut(v.row, v.col)
		v.rows = v.rows[:v.row+1]
	case final == 'J' && params == "2":
		v.rows = append(v.rows[:v.top], nil)
		for len(v.rows) < v.row+1 {
			v.rows = append(v.rows, nil)
		}
	case final == 'K' && params == "":
		v.cut(v.row, v.col)
	case final == 'H' && params == "":
		v.row, v.col, v.pending = v.top, 0, false
	case final == 'm':
		v.sgr = params
		if params == "0" {
			v.sgr = ""
		}
	case params == "?2004" && (final == 'h' || final == 'l'):
		v.pastes = final == 'h'
	default:
		v.fault("the sequence ESC [ %s %c", params, final)
	}
}

func (v *vt) cut(row, col int) {
	if col < len(v.rows[row]) {
		v.rows[row] = v.rows[row][:col]
	}
}

func (v *vt) down() {
	v.pending = false
	v.row++
	if v.row == len(v.rows) {
		v.rows = append(v.rows, nil)
	}
	v.top = max(v.top, v.row-v.height+1)
}

func (v *vt) put(r rune) {
	n := cells.Of(r)
	if n == 0 {
		return
	}
	if v.pending || v.col+n > v.width {
		v.col = 0
		v.down()
	}
	for len(v.rows[v.row]) < v.col+n {
		v.rows[v.row] = append(v.rows[v.row], glyph{text: " "})
	}
	v.rows[v.row][v.col] = glyph{string(r), v.sgr}
	if n == 2 {
		v.rows[v.row][v.col+1] = glyph{}
	}
	v.col += n
	if v.col >= v.width {
		v.col, v.pending = v.width-1, true
	}
}

// text is a row as it can be read, without what is in a style that is left out.
func (v *vt) text(row int, without ...string) string {
	var b strings.Builder
	for _, g := range v.rows[row] {
		left := false
		for _, style := range without {
			left = left || g.style == style
		}
		if !left {
			b.WriteString(g.text)
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// all are all rows there ever were.
func (v *vt) all(without ...string) []string {
	var rows []string
	for i := range v.rows {
		rows = append(rows, v.text(i, without...))
	}
	return rows
}

// shown is the screen.
func (v *vt) shown() string { return strings.Join(v.all()[v.top:], "\n") }
