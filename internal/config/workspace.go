package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// secretFile is a file or folder that agents must not read.
type secretFile struct {
	what   string // for errors: "the data folder"
	path   string
	key    string // of the setting that names it
	folder bool
}

// secretFiles lists the data, the configuration and the files with keys that c names.
func (c *Config) secretFiles() []secretFile {
	list := []secretFile{
		{"the data folder", c.Data, "data", true},
		{"the folder of certificates", c.TLS.ACMECache, "tls.acme_cache", true},
		{"the configuration file", c.fileRead, "config", false},
		{"the file of API keys", c.Auth.KeysFile, "auth.keys_file", false},
		{"the key of the certificate", c.TLS.Key, "tls.key", false},
	}
	if c.sources["database"].Kind != Default {
		list = append(list, secretFile{"the database", c.DatabaseFile(), "database", false})
	}
	for _, name := range []string{"sslkey", "passfile"} {
		list = append(list, secretFile{"the " + name + " of the database", c.databaseURL().Query().Get(name), "database", false})
	}
	return append(list, c.secretsFrom...)
}

// CheckWorkspace refuses a workspace that shows agents the server's own files: each agent has tools that read all files below the
// workspace. Links are followed. All conflicts are reported.
func (c *Config) CheckWorkspace() error {
	workspace := resolve(c.Workspace)
	var errs []error
	for _, f := range c.secretFiles() {
		if f.path == "" {
			continue
		}
		var how string
		path := resolve(f.path)
		switch {
		case path.is(workspace):
			how = "is also " + f.what
		case path.in(workspace):
			how = fmt.Sprintf("contains %s %s", f.what, path)
		case f.folder && workspace.in(path):
			how = fmt.Sprintf("is inside %s %s", f.what, path)
		default:
			continue
		}
		errs = append(errs, c.wrong("workspace",
			"%s %s, and agents can read all files of the workspace; set workspace to a folder with only the files that agents may read (such as ./workspace), or move %s (%s comes from: %s)",
			workspace, how, f.what, f.key, c.sources[f.key]))
	}
	return errors.Join(errs...)
}

// place is a path without links. The end of the path need not exist.
type place struct {
	exists  string // absolute, without links
	missing string // the names behind it that do not exist
}

// resolve follows the links of a path as far as the path exists.
func resolve(path string) place {
	p := place{exists: path}
	if abs, err := filepath.Abs(path); err == nil {
		p.exists = abs
	}
	for {
		if real, err := filepath.EvalSymlinks(p.exists); err == nil {
			p.exists = real
			return p
		}
		parent := filepath.Dir(p.exists)
		if parent == p.exists {
			return p
		}
		p.missing = filepath.Join(filepath.Base(p.exists), p.missing)
		p.exists = parent
	}
}

func (p place) String() string { return filepath.Join(p.exists, p.missing) }

// is reports whether both are one file or folder, whatever they are called: a system may ignore case, or mount a folder twice.
func (p place) is(other place) bool {
	same := p.missing == other.missing
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" { // file names there mostly ignore case
		same = strings.EqualFold(p.missing, other.missing)
	}
	if !same {
		return false
	}
	a, err := os.Stat(p.exists)
	if err != nil {
		return p.exists == other.exists
	}
	b, err := os.Stat(other.exists)
	return err == nil && os.SameFile(a, b)
}

// in reports whether p is inside folder.
func (p place) in(folder place) bool {
	for {
		up := place{exists: p.exists, missing: filepath.Dir(p.missing)}
		switch {
		case p.missing == "":
			up = place{exists: filepath.Dir(p.exists)}
			if up.exists == p.exists {
				return false
			}
		case up.missing == ".":
			up.missing = ""
		}
		if up.is(folder) {
			return true
		}
		p = up
	}
}
