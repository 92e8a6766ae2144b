package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
)

// function is the name of what has a line of a file of Go: a function, a method, which is called what it is without its type, or a
// variable.
func function(file string, line int) (string, error) {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
	if err != nil {
		return "", err
	}
	has := func(n ast.Node) bool { return set.Position(n.Pos()).Line <= line && line <= set.Position(n.End()).Line }
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if has(d) {
				return d.Name.Name, nil
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if v, ok := s.(*ast.ValueSpec); ok && has(v) {
					return v.Names[0].Name, nil
				}
			}
		}
	}
	return "", fmt.Errorf("%s:%d: there is no code; is the file another one than when it was covered?", file, line)
}
