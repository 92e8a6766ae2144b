package vfstest

import (
	"bytes"

	"pgregory.net/rapid"
)

// Damage is a random change of a file.
type Damage struct {
	Kind        string // "flip", "zero", "overwrite", "cut", or "end" if all bytes from First on are cut off
	First, Last int    // the bytes of the old text that change
	Text        []byte // after the change; it may equal the old text
}

// DrawDamage draws a change of a text that is not empty.
func DrawDamage(r *rapid.T, old []byte) Damage {
	d := Damage{
		Kind:  rapid.SampledFrom([]string{"flip", "zero", "overwrite", "cut", "end"}).Draw(r, "damage"),
		First: rapid.IntRange(0, len(old)-1).Draw(r, "first"),
		Text:  bytes.Clone(old),
	}
	d.Last = min(len(old), d.First+rapid.SampledFrom([]int{1, 2, 8, 100, 512, 4096}).Draw(r, "size"))
	switch part := d.Text[d.First:d.Last]; d.Kind {
	case "flip":
		d.Last = d.First + 1
		d.Text[d.First] ^= 1 << rapid.IntRange(0, 7).Draw(r, "bit")
	case "zero":
		clear(part)
	case "overwrite":
		copy(part, old[rapid.IntRange(0, len(old)-1).Draw(r, "from"):])
	case "cut":
		d.Text = append(d.Text[:d.First], old[d.Last:]...)
	case "end":
		d.Last = len(old)
		d.Text = d.Text[:d.First]
	}
	return d
}

// Keeps reports whether the bytes [from, to) of the old text are unchanged and at the same place.
func (d *Damage) Keeps(old []byte, from, to int) bool {
	return to <= len(d.Text) && bytes.Equal(old[from:to], d.Text[from:to])
}
