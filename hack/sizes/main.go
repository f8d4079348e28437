// Command sizes checks what no linter does: how long files and functions are, and how many parameters they take.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const (
	maxFile, maxTestFile = 400, 600
	maxFunction          = 60
	maxParameters        = 5
)

func main() {
	files := token.NewFileSet()
	found := 0
	complain := func(at token.Pos, format string, args ...any) {
		found++
		fmt.Printf("%s: %s\n", files.Position(at), fmt.Sprintf(format, args...))
	}
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.Contains(path, "zz_generated") {
			return err
		}
		file, err := parser.ParseFile(files, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		isTest := strings.HasSuffix(path, "_test.go")
		if lines := files.Position(file.End()).Line; !isTest && lines > maxFile || lines > maxTestFile {
			complain(file.Pos(), "the file has %d lines", lines)
		}
		for _, declaration := range file.Decls {
			if function, ok := declaration.(*ast.FuncDecl); ok && !isTest {
				check(files, function, complain)
			}
		}
		return nil
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "sizes:", err)
		os.Exit(1)
	}
	if found > 0 {
		os.Exit(1)
	}
}

func check(files *token.FileSet, function *ast.FuncDecl, complain func(token.Pos, string, ...any)) {
	if lines := files.Position(function.End()).Line - files.Position(function.Pos()).Line; lines > maxFunction {
		complain(function.Pos(), "%s has %d lines", function.Name.Name, lines)
	}
	if n := function.Type.Params.NumFields(); n > maxParameters {
		complain(function.Pos(), "%s takes %d parameters", function.Name.Name, n)
	}
}
