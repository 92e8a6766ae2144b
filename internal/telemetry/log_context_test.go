package telemetry_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// A line of the log that belongs to a request, a run or a turn has its ids, which the context brings: where one is in scope, the call takes
// it. What is in scope is a parameter or a variable that is called ctx, or a request.
func TestLinesOfTheLogTakeTheContextThatIsThere(t *testing.T) {
	fset := token.NewFileSet()
	calls := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && path != "../.." && (strings.HasPrefix(name, ".") || name == "testdata" || name == "node_modules" || strings.HasSuffix(name, "test") || name == "tools" || name == "bench") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range f.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			for _, at := range logsWithoutContext(fn.Type, fn.Body, false, &calls) {
				t.Errorf("%s, in %s: a context is in scope; expected the form with one, as InfoContext", strings.TrimPrefix(fset.Position(at).String(), "../../"), fn.Name.Name)
			}
		}
		return nil
	})
	if err != nil || calls < 20 {
		t.Errorf("%d calls were looked at, %v", calls, err)
	}
}

// logsWithoutContext finds the calls of a function's that could take a context and do not. outer says that one is in scope around it.
func logsWithoutContext(typ *ast.FuncType, body *ast.BlockStmt, outer bool, calls *int) (at []token.Pos) {
	there := outer
	for _, p := range typ.Params.List {
		if kind := fmt.Sprint(typeName(p.Type)); (kind == "context.Context" || kind == "http.Request") && len(p.Names) > 0 && p.Names[0].Name != "_" {
			there = true
		}
	}
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			at = append(at, logsWithoutContext(n.Type, n.Body, there, calls)...)
			return false
		case *ast.AssignStmt:
			for _, left := range n.Lhs {
				if v, ok := left.(*ast.Ident); ok && v.Name == "ctx" {
					there = true
				}
			}
		case *ast.CallExpr:
			fun, ok := n.Fun.(*ast.SelectorExpr)
			if !ok || len(n.Args) == 0 {
				return true
			}
			switch fun.Sel.Name {
			case "Debug", "Info", "Warn", "Error":
				if first, ok := n.Args[0].(*ast.Ident); ok && first.Name == "ctx" {
					return true // of package store's Log
				}
				if isLog(fun.X) {
					if *calls++; there {
						at = append(at, n.Pos())
					}
				}
			case "DebugContext", "InfoContext", "WarnContext", "ErrorContext":
				*calls++
			}
		}
		return true
	})
	return at
}

// typeName is a type's name with its package, without a star.
func typeName(e ast.Expr) string {
	if star, ok := e.(*ast.StarExpr); ok {
		e = star.X
	}
	if s, ok := e.(*ast.SelectorExpr); ok {
		if p, ok := s.X.(*ast.Ident); ok {
			return p.Name + "." + s.Sel.Name
		}
	}
	return ""
}

// isLog says whether an expression is a log by its name.
func isLog(e ast.Expr) bool {
	name := ""
	switch e := e.(type) {
	case *ast.Ident:
		name = e.Name
	case *ast.SelectorExpr:
		name = e.Sel.Name
	}
	return strings.EqualFold(name, "log")
}
