package main

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// A shellCommand is a simple command.
type shellCommand struct {
	line     int      // in its text
	assigned []string // NAME=value before the command
	words    []string
	pipe     bool   // its output is the next one's input
	to       string // file that its output goes to
}

// readShell splits a text into simple commands: quotes, comments, continued lines, pipes, && and output to a file. Variables stay as they are.
func readShell(text string) (list []*shellCommand, err error) {
	c := &shellCommand{}
	line := 0
	word, has, toFile := "", false, false
	endWord := func() {
		if !has {
			return
		}
		switch {
		case toFile:
			c.to, toFile = word, false
		case len(c.words) == 0 && regexp.MustCompile(`^[A-Za-z_]\w*=`).MatchString(word):
			c.assigned = append(c.assigned, word)
		default:
			c.words = append(c.words, word)
		}
		word, has = "", false
	}
	end := func(pipe bool) {
		endWord()
		c.pipe = pipe
		if len(c.words)+len(c.assigned) > 0 {
			list = append(list, c)
		}
		c = &shellCommand{line: line}
	}
	r := []rune(text)
	for i := 0; i < len(r); i++ {
		switch ch := r[i]; {
		case ch == '\n':
			line++
			end(false)
			c.line = line
		case ch == ' ' || ch == '\t':
			endWord()
		case ch == '#' && !has:
			for i+1 < len(r) && r[i+1] != '\n' {
				i++
			}
		case ch == '\\' && i+1 < len(r):
			i++
			if r[i] == '\n' {
				line++
			} else {
				word, has = word+string(r[i]), true
			}
		case ch == '\'' || ch == '"':
			has = true
			start := line
			for i++; ; i++ {
				if i == len(r) {
					return nil, fmt.Errorf("the quote of line %d is not closed", start+1)
				}
				if r[i] == ch {
					break
				}
				if ch == '"' && r[i] == '\\' && i+1 < len(r) && strings.ContainsRune("\"\\$`\n", r[i+1]) {
					i++
				}
				if r[i] == '\n' {
					line++
				}
				word += string(r[i])
			}
		case ch == '$' && i+1 < len(r) && (r[i+1] == '(' || r[i+1] == '{'):
			open, shut := r[i+1], map[rune]rune{'(': ')', '{': '}'}[r[i+1]]
			has = true
			for depth := 0; ; i++ {
				if i == len(r) {
					return nil, errors.New("a $( or ${ is not closed")
				}
				word += string(r[i])
				if r[i] == open {
					depth++
				} else if r[i] == shut {
					if depth--; depth == 0 {
						break
					}
				}
			}
		case ch == '&' && i+1 < len(r) && r[i+1] == '&':
			i++
			end(false)
		case ch == '|':
			end(true)
		case ch == ';' || ch == '&':
			end(false)
		case ch == '>':
			if i+1 < len(r) && r[i+1] == '>' {
				i++
			}
			if word == "2" {
				word, has = "", false
			}
			endWord()
			toFile = true
		case ch == '<':
			return nil, errors.New("this test does not know < in commands")
		default:
			word, has = word+string(ch), true
		}
	}
	end(false)
	return list, nil
}
