package config

import (
	"errors"
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
		path := resolve(f.path)
		if f.path != "" && (inside(path, workspace) || f.folder && inside(workspace, path)) {
			errs = append(errs, c.wrong("workspace", "agents can read all files of the workspace %s, and %s %s overlaps with it; "+
				"set workspace to a folder with only the files that agents may read (such as ./workspace), or move %s (%s comes from: %s)",
				workspace, f.what, path, f.what, f.key, c.sources[f.key]))
		}
	}
	return errors.Join(errs...)
}

// resolve returns the absolute path without links, as far as the path exists.
func resolve(path string) string {
	path, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	missing := ""
	for p := path; ; p = filepath.Dir(p) {
		if real, err := filepath.EvalSymlinks(p); err == nil {
			return filepath.Join(real, missing)
		}
		if p == filepath.Dir(p) {
			return path
		}
		missing = filepath.Join(filepath.Base(p), missing)
	}
}

// inside reports whether a resolved path is a folder, or inside it.
func inside(path, folder string) bool {
	for ; !samePath(path, folder); path = filepath.Dir(path) {
		if path == filepath.Dir(path) {
			return false
		}
	}
	return true
}

// samePath reports whether two resolved paths are one file or folder. A system may ignore case, or mount a folder twice.
func samePath(a, b string) bool {
	first, err := os.Stat(a)
	second, err2 := os.Stat(b)
	if err == nil && err2 == nil {
		return os.SameFile(first, second)
	}
	return a == b || (runtime.GOOS == "windows" || runtime.GOOS == "darwin") && strings.EqualFold(a, b)
}
