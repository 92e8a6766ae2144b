// Command release builds what is given out: for each system an archive with the binary, its licences, its bill of materials, the
// guides and the files of deploy/, and over all of them SHA256SUMS.
//
//	go run ./internal/release [-out dist] [-rev HEAD] [-version v1.2.3] [-targets linux/amd64,…]
//	go run ./internal/release sbom [-dir DIR] BINARY
//
// The sources are those of a commit, whatever the work tree holds, and nothing of the machine goes in: whoever builds the same commit
// with the same Go gets the same bytes. Times in the archives are the commit's.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// targets are the systems that binaries are built for.
var targets = []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64", "windows/arm64"}

// command is the package of the binary.
const command = "./cmd/server"

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	if len(args) > 0 && args[0] == "sbom" {
		return runSBOM(ctx, args[1:], stdout)
	}
	set := flag.NewFlagSet("release", flag.ContinueOnError)
	out := set.String("out", "dist", "`folder` to write to; what was there of an earlier release is taken away")
	rev := set.String("rev", "HEAD", "`commit` to build")
	version := set.String("version", "", "`version`; the tag of the commit unless given, or else one made of its time and name")
	only := set.String("targets", strings.Join(targets, ","), "`systems` to build for")
	if err := set.Parse(args); err != nil {
		return err
	}
	c, err := describe(ctx, ".", *rev, *version)
	if err != nil {
		return err
	}
	src, err := os.MkdirTemp("", "lingserve-release")
	if err != nil {
		return err
	}
	defer os.RemoveAll(src)
	if err := export(ctx, ".", c.commit, src); err != nil {
		return err
	}
	if err := empty(*out); err != nil {
		return err
	}
	for target := range strings.SplitSeq(*only, ",") {
		goos, goarch, ok := strings.Cut(target, "/")
		if !ok {
			return fmt.Errorf("-targets: %q is no system; expected one as linux/amd64", target)
		}
		began := time.Now()
		if err := c.release(ctx, src, *out, goos, goarch); err != nil {
			return fmt.Errorf("%s: %w", target, err)
		}
		fmt.Fprintf(stdout, "%-14s %s\n", target, time.Since(began).Round(100*time.Millisecond))
	}
	return sums(*out)
}

// commit is what is released.
type commit struct {
	version, commit string
	date            time.Time
}

// describe reads what a commit is called and when it was made.
func describe(ctx context.Context, dir, rev, version string) (commit, error) {
	text, err := output(ctx, dir, nil, "git", "log", "-1", "--format=%H %ct", rev)
	if err != nil {
		return commit{}, err
	}
	hash, seconds, _ := strings.Cut(strings.TrimSpace(text), " ")
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return commit{}, fmt.Errorf("git log says %q", text)
	}
	c := commit{version, hash, time.Unix(n, 0).UTC()}
	if c.version == "" {
		if tag, err := output(ctx, dir, nil, "git", "describe", "--tags", "--exact-match", "--match", "v*", hash); err == nil {
			c.version = strings.TrimSpace(tag)
		} else { // as Go names a commit without a tag
			c.version = "v0.0.0-" + c.date.Format("20060102150405") + "-" + hash[:12]
		}
	}
	return c, nil
}

// export writes the files of a commit into a folder.
func export(ctx context.Context, repo, hash, to string) error {
	archive := exec.CommandContext(ctx, "git", "archive", "--format=tar", hash)
	archive.Dir, archive.Stderr = repo, os.Stderr
	r, err := archive.StdoutPipe()
	if err != nil {
		return err
	}
	if err := archive.Start(); err != nil {
		return err
	}
	return errors.Join(untar(r, to), archive.Wait())
}

// flags are those of go build. The stamp says what Go would have read from a repository; here is none.
func (c commit) flags() []string {
	stamp := fmt.Sprintf("-X main.releaseVersion=%s -X main.releaseCommit=%s -X main.releaseDate=%s", c.version, c.commit, c.date.Format(time.RFC3339))
	return []string{"-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid= " + stamp}
}

// environment is that of the build: without what the machine is set up with, and without C.
func environment(goos, goarch string) []string {
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return name == "GOFLAGS" || name == "GOEXPERIMENT" || strings.HasPrefix(name, "CGO_") || name == "GODEBUG"
	})
	return append(env, "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-mod=readonly", "GOOS="+goos, "GOARCH="+goarch, "GOAMD64=v1", "GOARM64=v8.0")
}

// release builds for one system and writes its archive and its bill of materials.
func (c commit) release(ctx context.Context, src, out, goos, goarch string) error {
	name := strings.Join([]string{"lingserve", c.version, goos, goarch}, "_")
	binary := filepath.Join(src, "dist", name, "lingserve")
	if goos == "windows" {
		binary += ".exe"
	}
	env := environment(goos, goarch)
	args := append(append([]string{"build"}, c.flags()...), "-o", binary, command)
	if _, err := output(ctx, src, env, "go", args...); err != nil {
		return err
	}
	parts, err := partsOf(ctx, src, env)
	if err != nil {
		return err
	}
	bill, err := newBill(c, binary, parts)
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(bill, "", "  ")
	if err != nil {
		return err
	}
	text = append(text, '\n')
	files, err := given(src)
	if err != nil {
		return err
	}
	files = append(files,
		file{name: filepath.Base(binary), from: binary, mode: 0o755},
		file{name: "THIRD_PARTY_LICENSES.txt", text: notices(parts)},
		file{name: "sbom.cdx.json", text: text})
	if err := os.WriteFile(filepath.Join(out, name+".cdx.json"), text, 0o644); err != nil {
		return err
	}
	if goos == "windows" {
		return writeZip(filepath.Join(out, name+".zip"), name, files, c.date)
	}
	return writeTar(filepath.Join(out, name+".tar.gz"), name, files, c.date)
}

// empty makes the folder, and takes away what an earlier release has left: never anything else.
func empty(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() != "SHA256SUMS" && !strings.HasPrefix(e.Name(), "lingserve_") {
			return fmt.Errorf("%s has %s in it, which is of no release; choose another folder with -out", dir, e.Name())
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// sums writes SHA256SUMS, as sha256sum -c reads it.
func sums(dir string) error {
	entries, err := os.ReadDir(dir) // by name
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, e := range entries {
		sum, err := sumOf(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%x  %s\n", sum, e.Name())
	}
	return os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(b.String()), 0o644)
}

func sumOf(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return nil, err
	}
	return h.Sum(nil), nil
}

// output runs a program and returns what it prints. What it complains of is in the error.
func output(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, env // nil is ours
	var complaint strings.Builder
	cmd.Stderr = &complaint
	text, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, args[0], err, complaint.String())
	}
	return string(text), nil
}
