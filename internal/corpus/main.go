// Command corpus chooses, of the inputs that a fuzz target has found, those that are worth keeping: few of them, which reach code that
// no input reaches that is kept already.
//
//	go run ./internal/corpus [-most 8] [-root DIR] [-module PATH] BEFORE PROFILE...
//
// BEFORE and each PROFILE are coverage profiles, as "go test -coverprofile" writes them: of what is there already, and of one input
// each. A profile is called what its input is. For each input to keep, with the one that reaches most as the first, it prints a line
// of the profile's name, the function of which it reaches something that none before it does, and where that is:
//
//	3f2a91b0c4d5e6f7 unescape jsonuri/pointer.go:88
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "corpus:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	set := flag.NewFlagSet("corpus", flag.ContinueOnError)
	most := set.Int("most", 8, "how many inputs are kept at most")
	root := set.String("root", ".", "the `folder` of the module")
	module := set.String("module", "github.com/lingserve/lingserve", "the `path` of the module")
	if err := set.Parse(args); err != nil {
		return err
	}
	if set.NArg() == 0 {
		return errors.New("no profile is named; expected BEFORE and its PROFILEs")
	}
	before, err := readProfile(set.Arg(0))
	if err != nil {
		return err
	}
	files := set.Args()[1:]
	inputs := make([]profile, len(files))
	for i, file := range files {
		if inputs[i], err = readProfile(file); err != nil {
			return err
		}
	}
	for _, c := range choose(before, inputs, *most) {
		file, ok := strings.CutPrefix(c.first.file, *module+"/")
		if !ok {
			return fmt.Errorf("%s: %s is not of the module %s", files[c.input], c.first.file, *module)
		}
		name, err := function(filepath.Join(*root, filepath.FromSlash(path.Clean(file))), c.first.line)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s %s %s:%d\n", filepath.Base(files[c.input]), name, file, c.first.line)
	}
	return nil
}
