// Package edits tells how far apart two words are, to say what a mistyped one was probably meant to be.
package edits

import (
	"fmt"
	"strings"
)

// Between counts the bytes that must be put in, left out, changed or swapped with their neighbour to make b of a; no byte is touched
// twice. Of words that are more than most apart it only says so, by some number above most.
func Between(a, b string, most int) int {
	if most < max(len(a)-len(b), len(b)-len(a)) {
		return most + 1
	}
	const usual = 64 // bytes of a word; longer ones cost an allocation
	var stack [3][usual + 1]int
	before, row, next := stack[0][:], stack[1][:], stack[2][:]
	if len(b) > usual {
		before, row, next = make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	}
	for j := range len(b) + 1 {
		row[j] = j
	}
	for i := range len(a) {
		next[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next[j+1] = min(row[j+1]+1, next[j]+1, row[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row, next = row, next, before
	}
	return row[len(b)]
}

// Nearest returns the name of known that was probably meant by a mistyped one, "" where none is near. The last part of a
// dotted name stands for the whole.
func Nearest(name string, known []string) string {
	// A word of up to five bytes may have one mistake: with two, other words of its length would be near.
	best, most := "", min(max(1, min(len(name)/3, 2), len(name)/4), len(name)-1)
	for _, k := range known {
		if strings.EqualFold(k, name) || strings.HasSuffix(k, "."+name) {
			return k
		}
		if d := Between(strings.ToLower(name), strings.ToLower(k), most); d <= most {
			best, most = k, d-1
		}
	}
	return best
}

// Suggest returns "; did you mean x?" with the known word that [Nearest] finds and a prefix before it, or else nothing.
func Suggest(word string, known []string, prefix string) string {
	if near := Nearest(word, known); near != "" {
		return "; did you mean " + prefix + near + "?"
	}
	return ""
}

// DidYouMean returns `, did you mean "x"?` with the known word that [Nearest] finds, or else otherwise.
func DidYouMean(word string, known []string, otherwise string) string {
	if near := Nearest(word, known); near != "" {
		return fmt.Sprintf(", did you mean %q?", near)
	}
	return otherwise
}
