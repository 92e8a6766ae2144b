package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestWhatIsCommittedIsWhatEsbuildMakes(t *testing.T) {
	bundles, err := bundle("..")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range bundles {
		got, err := os.ReadFile(filepath.Join("..", "dist", name))
		if err != nil {
			t.Error(err)
		} else if !bytes.Equal(got, want) {
			t.Errorf("dist/%s is not what its sources make; run make client", name)
		}
	}
}
