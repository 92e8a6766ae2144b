package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheDefaultWorkspaceHasNoFilesOfTheServer(t *testing.T) { // DA-04
	t.Chdir(t.TempDir())
	if err := os.WriteFile("lingserve.yaml", []byte("model: demo:demo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.CheckWorkspace(); err != nil {
		t.Error(err)
	}
}

func TestAFileIsInAFolder(t *testing.T) { // DA-04
	dir := t.TempDir()
	for _, folder := range []string{"a/b", "ab"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(dir, "a"), filepath.Join(dir, "link")); err != nil {
		t.Skip(err)
	}
	at := func(path string) string { return resolve(filepath.Join(dir, filepath.FromSlash(path))) }
	for _, row := range []struct {
		path, folder string
		is, in       bool
	}{
		{"a", "a", true, false},
		{"a/b", "a", false, true},
		{"a", "a/b", false, false},
		{"ab", "a", false, false},
		{"abc", "a", false, false},
		{"link", "a", true, false},
		{"a", "link", true, false},
		{"link/b", "a/b", true, false},
		{"link/b", "a", false, true},
		{"link/x/y", "a", false, true},
		{"link/x/y", "a/x", false, true},
		{"link/x", "a/x", true, false},
		{"a/xy", "a/x", false, false},
		{"a/x/../x", "link/x", true, false},
		{"new", "new", true, false},
		{"new/x/y", "new", false, true},
		{"new", "new/x", false, false},
		{"b", "a/b", false, false},
	} {
		if is := samePath(at(row.path), at(row.folder)); is != row.is {
			t.Errorf("%s is %s: %v", row.path, row.folder, is)
		}
		if in := inside(at(row.path), at(row.folder)); in != (row.in || row.is) {
			t.Errorf("%s in %s: %v", row.path, row.folder, in)
		}
	}
	if p := at("a/b"); !inside(p, resolve("/")) || inside(resolve("/"), p) {
		t.Error("a folder is not in the root")
	}
}

func TestAWorkspaceErrorNamesBothPathsAndAWayOut(t *testing.T) { // DA-04
	t.Chdir(t.TempDir())
	c, err := Load(nil, []string{"LINGSERVE_WORKSPACE=.", "LINGSERVE_CONFIG="})
	if err != nil {
		t.Fatal(err)
	}
	err = c.CheckWorkspace()
	here := resolve(".")
	want := "LINGSERVE_WORKSPACE: workspace: agents can read all files of the workspace " + here + ", and the data folder " + filepath.Join(here, "data") +
		" overlaps with it; set workspace to a folder with only the files that agents may read (such as ./workspace), or move the data folder (data comes from: default)"
	if err == nil || err.Error() != want {
		t.Errorf("%v\nexpected %s", err, want)
	}
	if strings.Count(err.Error(), "\n") != 0 {
		t.Error("it is several lines")
	}
}
