package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestWhatIsCommittedIsWhatEsbuildMakes(t *testing.T) {
	for name, target := range targets {
		t.Run(name, func(t *testing.T) {
			if _, err := os.Stat(filepath.Join(target.folder, "node_modules")); err != nil && target.packages {
				t.Skip("its packages are not installed; make " + name + " installs them")
			}
			bundles, err := target.bundle(target.folder)
			if err != nil {
				t.Fatal(err)
			}
			for file, want := range bundles {
				got, err := os.ReadFile(filepath.Join(target.folder, "dist", filepath.FromSlash(file)))
				if err != nil {
					t.Error(err)
				} else if !bytes.Equal(got, want) {
					t.Errorf("dist/%s is not what its sources make; run make %s", file, name)
				}
			}
		})
	}
}
