//go:build nightly

package attacks

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lingserve/lingserve/internal/program"
)

// DA-04: agents read all files of the workspace, so the server does not start when its own files are there.
func TestDA_04_TheWorkspaceHasNoFilesOfTheServer(t *testing.T) {
	const model = "model: demo:demo\n"
	path := binaryPath(t)
	for name, c := range map[string]struct {
		config string // a file to write
		args   []string
		prints string
	}{
		"the current folder":         {args: []string{"--workspace", "."}, prints: `contains the data folder \S+/data,`},
		"the root":                   {args: []string{"--workspace", "/"}, prints: `contains the data folder \S+/data,`},
		"a path with dots":           {args: []string{"--workspace", "a/../a/..", "--config", ""}, prints: `contains the data folder \S+/data,`},
		"the data folder":            {args: []string{"--workspace", "data"}, prints: `is also the data folder`},
		"inside the data folder":     {args: []string{"--workspace", "data/tapes"}, prints: `/data/tapes is inside the data folder \S+/data,`},
		"data in it, neither exists": {args: []string{"--workspace", "x", "--data", "x/y"}, prints: `/x contains the data folder \S+/x/y,`},
		"a link to the folder":       {args: []string{"--workspace", "link"}, prints: `contains the data folder \S+/data,`},
		"a data folder by a link":    {args: []string{"--workspace", "a", "--data", "indirect"}, prints: `/a contains the data folder \S+/a/inner,`},
		"the configuration":          {config: "a/c.yaml", args: []string{"--workspace", "a", "--config", "a/c.yaml"}, prints: `/a contains the configuration file \S+/a/c\.yaml,`},
		"the configuration, linked":  {args: []string{"--workspace", "a", "--config", "c.yaml"}, prints: `/a contains the configuration file \S+/a/real\.yaml,`},
		"the default configuration":  {config: "lingserve.yaml", args: []string{"--workspace", ".", "--data", ""}, prints: `contains the configuration file \S+/lingserve\.yaml,`},
		"API keys":                   {args: []string{"--workspace", "a", "--auth-keys-file", "a/keys.txt"}, prints: `/a contains the file of API keys \S+/a/keys\.txt,`},
		"the key of TLS":             {args: []string{"--workspace", "a", "--tls-cert", "cert.pem", "--tls-key", "a/key.pem"}, prints: `/a contains the key of the certificate \S+/a/key\.pem,`},
		"certificates":               {args: []string{"--workspace", "a", "--tls-acme-cache", "a/b/acme"}, prints: `/a contains the folder of certificates \S+/a/b/acme,`},
		"the password of a database": {args: []string{"--workspace", "a", "--tape-postgres-url", "postgres://db/x?sslkey=a/pg.key"}, prints: `/a contains the sslkey of the database \S+/a/pg\.key,`},
		"a secret in a file": {
			args:   []string{"--workspace", "a", "--config", "c2.yaml"},
			prints: `/a contains the file of this secret \S+/a/openai\.key,.*providers\.openai\.key`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for _, folder := range []string{"a/inner", "data/tapes"} {
				if err := os.MkdirAll(filepath.Join(dir, folder), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			for link, to := range map[string]string{"link": dir, "indirect": "a/inner", "c.yaml": "a/real.yaml"} {
				if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
					t.Skip(err)
				}
			}
			files := map[string]string{"a/real.yaml": model, "a/openai.key": "sk-0123456789", "c2.yaml": "providers: {openai: {key: {file: a/openai.key}}}\n"}
			if c.config != "" {
				files[c.config] = model
			}
			for file, text := range files {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			commands := [][]string{{"serve", "--addr", "127.0.0.1:0"}}
			if name == "the current folder" { // the other program with agents
				commands = append(commands, []string{"chat"})
			}
			for _, command := range commands {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				cmd := exec.CommandContext(ctx, path, append(command, c.args...)...)
				cmd.Dir, cmd.Env = dir, program.Environment(dir)
				out, err := cmd.CombinedOutput()
				if err == nil || !regexp.MustCompile(c.prints).MatchString(filepath.ToSlash(string(out))) || strings.Contains(string(out), "listens on") {
					t.Errorf("%s: %v\n%s\nexpected %s", command[0], err, out, c.prints)
				}
			}
		})
	}
}

// DA-04: a folder beside the server's files is a workspace, and a reload that would put a secret there changes nothing.
func TestDA_04_AReloadPutsNoSecretIntoTheWorkspace(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there is no SIGHUP")
	}
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "data-of-agents"), 0o700); err != nil { // a name that begins like the data folder's
		t.Fatal(err)
	}
	write("lingserve.yaml", "model: demo:demo\n")
	p, err := program.Start(t.Context(), binaryPath(t), dir, &program.Options{Args: []string{"--workspace", "data-of-agents"}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	write("data-of-agents/key", "sk-0123456789")
	write("lingserve.yaml", "model: demo:demo\nworkspace: elsewhere\nproviders: {openai: {key: {file: data-of-agents/key}}}\n")
	if err := p.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if _, err := p.Log.Find(ctx, regexp.MustCompile(`configuration is invalid.*data-of-agents contains the file of this secret`)); err != nil {
		t.Errorf("%v\n%s", err, p.Log.Tail())
	}
}
