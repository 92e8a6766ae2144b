package web

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/web/wire"
)

// DO-11: metrics create a series for each reason at the start. A reason that the code has and the list has not would begin late.
func TestEveryReasonOfARefusalIsListed(t *testing.T) {
	listed := Reasons()
	found := map[string]bool{}
	for _, l := range []access.Limit{access.LimitRequests, access.LimitTokens, access.LimitRuns} {
		found[access.Decision{Limit: l}.Err().(*access.Refusal).Reason] = true
	}
	word := func(e ast.Expr) {
		if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			text, err := strconv.Unquote(lit.Value)
			if err != nil {
				t.Fatal(err)
			}
			found[text] = true
		}
	}
	var file *ast.File
	look := func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit: // Refusal{Reason: "word"}
			of := n.Type
			if s, ok := of.(*ast.SelectorExpr); ok {
				of = s.Sel
			}
			if name, ok := of.(*ast.Ident); !ok || name.Name != "Refusal" {
				break
			}
			for _, e := range n.Elts {
				if pair, ok := e.(*ast.KeyValueExpr); ok && pair.Key.(*ast.Ident).Name == "Reason" {
					word(pair.Value)
				}
			}
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.Ident); ok && (f.Name == "unauthorized" || f.Name == "forbidden") {
				word(n.Args[0])
			}
		case *ast.ValueSpec: // limitBody = "limit_body"
			for i, name := range n.Names {
				if (strings.HasPrefix(name.Name, "limit") || file.Name.Name == "run" && strings.HasPrefix(name.Name, "Limit")) && i < len(n.Values) {
					word(n.Values[i])
				}
			}
		}
		return true
	}
	for _, folder := range []string{".", "../access", "../run"} {
		files, err := filepath.Glob(filepath.Join(folder, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s has %d files: %v", folder, len(files), err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if file, err = parser.ParseFile(token.NewFileSet(), name, text, 0); err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, look)
		}
	}
	for reason := range found {
		if !slices.Contains(listed, reason) {
			t.Errorf("the list of reasons lacks %q", reason)
		}
	}
	for i, reason := range listed {
		if !found[reason] && !wire.IsRefusal(wire.Statuses[reason]) {
			t.Errorf("no code gives the reason %q", reason)
		}
		if i > 0 && listed[i-1] == reason {
			t.Errorf("%q is listed twice", reason)
		}
	}
}

func TestTheListOfRoutesIsThatOfTheRouter(t *testing.T) {
	s, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	routes := s.Routes()
	for _, want := range []Route{{noRoute, "GET"}, {"/v1/runs", "POST"}, {"/v1/runs", "GET"}, {"/v1/models/*", "HEAD"}, {"/v1/runs/{run}/events", "GET"}} {
		if !slices.Contains(routes, want) {
			t.Errorf("there is no %v in %v", want, routes)
		}
	}
}
