package config

import "strings"

// Nearest returns the name of known that was probably meant by a mistyped one, "" where none is near. The last part of a
// dotted name stands for the whole.
func Nearest(name string, known []string) string {
	best, distance := "", 1+max(2, len(name)/4)
	for _, k := range known {
		if strings.EqualFold(k, name) || strings.HasSuffix(k, "."+name) {
			return k
		}
		if d := edits(strings.ToLower(name), strings.ToLower(k)); d < distance && d < len(name) {
			best, distance = k, d
		}
	}
	return best
}

// edits is how many letters must be put in, taken out or changed to make b of a (Levenshtein's distance).
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(row[j+1]+1, row[j]+1, cost)
		}
	}
	return row[len(b)]
}
