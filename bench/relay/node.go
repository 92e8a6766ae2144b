package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// The Node peer is @bearbobo/ling, as it is shipped and with its pacing taken out: it holds back what it has parsed to about
// 33 deltas a second. Its installed copy stays as it is; a second one is changed.
const (
	peerShipped  = "@bearbobo/ling, as shipped"
	peerUnpaced  = "@bearbobo/ling, its pacing taken out"
	peerPackage  = "@bearbobo/ling"
	peerAdapter  = "lib/cjs/adapter/openai/index.js"
	peerPacing   = "yield (0, utils_1.sleep)(Math.max(10, 1000 / delta));"
	peerWaiting  = "if (done || delta <= 0)"
	peerWaitless = "if (delta <= 0)"
)

// node starts a relay on Node.
func (b *bench) node(name string) (*process, error) {
	args, ok := scripts[name]
	if !ok {
		modules := filepath.Join(b.peer, "node_modules")
		if name == peerUnpaced {
			var err error
			if modules, err = b.unpaced(modules); err != nil {
				return nil, err
			}
		}
		modules, err := filepath.Abs(modules)
		if err != nil {
			return nil, err
		}
		args = []string{"relay.mjs", modules}
	}
	p, err := start(exec.Command("node", append([]string{filepath.Join(b.peer, args[0])}, append(args[1:], b.model.addr)...)...))
	if err != nil {
		return nil, err
	}
	if p.addr, err = p.line(); err != nil {
		p.stop()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return p, nil
}

// unpaced makes a folder of modules with a changed copy of the peer; the others are linked to.
func (b *bench) unpaced(modules string) (string, error) {
	to := filepath.Join(b.dir, "unpaced", "node_modules")
	if _, err := os.Stat(to); err == nil {
		return to, nil
	}
	copied := filepath.Join(to, peerPackage)
	if err := os.CopyFS(copied, os.DirFS(filepath.Join(modules, peerPackage))); err != nil {
		return "", err
	}
	entries, err := os.ReadDir(modules)
	if err != nil {
		return "", err
	}
	modules, err = filepath.Abs(modules)
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") || e.Name() == filepath.Dir(peerPackage) {
			continue
		}
		if err := os.Symlink(filepath.Join(modules, e.Name()), filepath.Join(to, e.Name())); err != nil {
			return "", err
		}
	}
	file := filepath.Join(copied, peerAdapter)
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	changed := strings.Replace(string(text), peerPacing, ";", 1)
	changed = strings.Replace(changed, peerWaiting, peerWaitless, 1)
	if strings.Contains(changed, peerPacing) || strings.Contains(changed, peerWaiting) || changed == string(text) {
		return "", errors.New("the peer's pacing is not where it was expected")
	}
	return to, os.WriteFile(file, []byte(changed), 0o600)
}

// installed checks that the packages of the relays on Node are there.
func (b *bench) installed() error {
	if _, err := os.Stat(filepath.Join(b.peer, "node_modules")); err != nil {
		return fmt.Errorf("the relays on Node are not installed: run npm install --prefix %s", b.peer)
	}
	return nil
}

// measurePeer compares with the peer, on work that it can do in a few seconds.
func (b *bench) measurePeer(rounds int) error {
	if b.peer == "" {
		return nil
	}
	if err := b.installed(); err != nil {
		return err
	}
	for _, m := range []struct {
		name string
		load load
	}{
		{peerUnpaced, load{b.fast.streams, 1000, tokenByToken}},
		{peerShipped, load{b.fast.streams, 200, tokenByToken}},
	} {
		all, err := b.turns(rounds, m.load, m.name, "lingserve")
		if err != nil {
			return err
		}
		fmt.Printf("## Beside the peer on Node: %s\n\n| relay | 1000 tokens/s | CPU µs a token | s from first byte to end |\n|---|---|---|---|\n", m.load)
		tokens := func(t turn) int { return t.tokens }
		for _, name := range []string{m.name, "lingserve"} {
			fmt.Printf("| %s | %.1f | %s | %.2f |\n", name, float64(of(all[name], tokens))/1000, us(of(all[name], func(t turn) time.Duration { return t.cpu })),
				of(all[name], func(t turn) time.Duration { return time.Duration(t.Seconds * float64(time.Second)) }).Seconds())
		}
		fmt.Printf("\n**%.0f times** the peer's tokens a second.\n\n", float64(of(all["lingserve"], tokens))/float64(of(all[m.name], tokens)))
	}
	return nil
}
