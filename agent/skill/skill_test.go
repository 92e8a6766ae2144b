package skill_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/agent/skill"
)

func text(name, description, body string) string {
	return "---\nname: " + name + "\ndescription: " + description + "\n---\n" + body
}

// put writes files below dir.
func put(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// problems are the messages of what is left out.
func problems(l *skill.Library) []string {
	var all []string
	for _, err := range l.Problems() {
		all = append(all, err.Error())
	}
	return all
}

// AG-63
func TestASkillOfAnEarlierPlaceHidesThoseOfLaterOnes(t *testing.T) {
	work, data := t.TempDir(), t.TempDir()
	put(t, work, map[string]string{
		".agents/skills/pdf/SKILL.md":    text("pdf", "from the workspace", "of the workspace"),
		".agents/skills/broken/SKILL.md": text("other", "a bad one hides nothing", ""),
		".agents/skills/README.md":       "no skill",
		".agents/skills/.git/config":     "no skill",
	})
	put(t, data, map[string]string{
		"skills/pdf/SKILL.md":    text("pdf", "from data", ""),
		"skills/mail/SKILL.md":   text("mail", "from data", "of data"),
		"skills/broken/SKILL.md": text("broken", "from data", ""),
	})
	l := skill.New(nil, skill.Dir(work, ".agents/skills"), skill.Dir(data, "skills"), skill.Dir(work, "missing"), skill.Dir(filepath.Join(work, "none"), "x"))
	want := []skill.Skill{
		{Name: "broken", Description: "from data"},
		{Name: "mail", Description: "from data"},
		{Name: "pdf", Description: "from the workspace"},
	}
	if diff := cmp.Diff(want, l.List()); diff != "" {
		t.Error(diff)
	}
	for name, want := range map[string]string{"pdf": "of the workspace", "mail": "of data"} {
		if got, err := l.Load(name); err != nil || got.Content != want {
			t.Errorf("%s: %q, %v", name, got.Content, err)
		}
	}
	if diff := cmp.Diff([]string{`.agents/skills/broken/SKILL.md:2:7: the name is "other"; expected the folder's name, "broken"`}, problems(l)); diff != "" {
		t.Error(diff)
	}
}

// AG-63: a bad skill is skipped with a warning that says where it is wrong.
func TestABadSkillIsLeftOutWithItsPlace(t *testing.T) {
	good := text("s", "good", "")
	for _, c := range []struct{ name, folder, file, want string }{
		{"no front matter", "s", "# Hello", `s/SKILL.md:1: expected a line of three dashes (---), then name and description as "name: …", and another such line`},
		{"empty", "s", "", `s/SKILL.md:1: expected a line of three dashes (---), then name and description as "name: …", and another such line`},
		{"no end", "s", "---\nname: s\n", `s/SKILL.md:1: the front matter that starts here has no end; expected another line of three dashes (---) within 8 KiB`},
		{"an end too far away", "s", "---\n" + strings.Repeat("# x\n", 3000) + "---\n", `s/SKILL.md:1: the front matter that starts here has no end; expected another line of three dashes (---) within 8 KiB`},
		{"nothing in it", "s", "---\n---\n", `s/SKILL.md:1: the front matter has no name; expected "name: s"`},
		{"comments in it", "s", "---\n# name: s\n---\n", `s/SKILL.md:1: the front matter has no name; expected "name: s"`},
		{"a list", "s", "---\n- name\n---\n", `s/SKILL.md:2:1: expected "name: …" and "description: …", one per line`},
		{"no YAML", "s", "---\nname: s\ndescription: \"x\n---\n", `s/SKILL.md:3:14: the text has no closing quote`},
		{"no name", "s", "---\ndescription: x\n---\n", `s/SKILL.md:1: the front matter has no name; expected "name: s"`},
		{"no description", "s", "---\nname: s\n---\n", `s/SKILL.md:1: the front matter has no description; describe what the skill is for and when to use it`},
		{"an empty description", "s", "---\nname: s\ndescription: ''\n---\n", `s/SKILL.md:3:14: the description is empty; describe what the skill is for and when to use it`},
		{"a description that is null", "s", "---\nname: s\ndescription:\n---\n", `s/SKILL.md:3:1: description is not text; put the value in quotes`},
		{"a description that is a list", "s", "---\nname: s\ndescription: [a]\n---\n", `s/SKILL.md:3:14: description is not text; put the value in quotes`},
		{"a long description", "s", text("s", strings.Repeat("é", 1025), ""), `s/SKILL.md:3:14: the description has 1025 characters; expected at most 1024`},
		{"another name", "s", text("S", "x", ""), `s/SKILL.md:2:7: the name is "S"; expected the folder's name, "s"`},
		{"a name that is a number", "7", text("7", "x", ""), `7/SKILL.md:2:7: name is not text; put the value in quotes`},
		{"a folder that is no name", "My Skill", text("My Skill", "x", ""), `My Skill/SKILL.md: the folder's name is "My Skill"; expected up to 64 lower-case letters, digits and dashes`},
		{"a folder with a long name", strings.Repeat("a", 65), good, strings.Repeat("a", 65) + `/SKILL.md: the folder's name is "` + strings.Repeat("a", 64) + `…"; expected up to 64 lower-case letters, digits and dashes`},
		{"no UTF-8", "s", "---\nname: s\ndescription: \xff\n---\n", `s/SKILL.md:3: it is not UTF-8 text`},
		{"too long", "s", text("s", "x", strings.Repeat("a", 64<<10+1)), `s/SKILL.md: the text has 65537 bytes; expected at most 64 KiB; move the rest to other files of the folder`},
		{"much too long", "s", text("s", "x", strings.Repeat("a", 80<<10)), `s/SKILL.md: it is too long; expected at most 72 KiB`},
		{"too many brackets", "s", "---\nname: " + strings.Repeat("[", 1000) + "\n---\n", `s/SKILL.md:2:71: values are nested too deeply here; expected at most 64 levels`},
		{"no file", "s", "-", `s/SKILL.md: it is missing; expected a file with a name and a description, then the text`},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			put(t, dir, map[string]string{c.folder + "/SKILL.md": c.file, "good/SKILL.md": text("good", "x", "")})
			if c.file == "-" {
				if err := os.Remove(filepath.Join(dir, c.folder, "SKILL.md")); err != nil {
					t.Fatal(err)
				}
			}
			var log bytes.Buffer
			l := skill.New(slog.New(slog.NewTextHandler(&log, nil)), skill.Dir(dir, "."))
			for range 3 {
				if got := l.List(); len(got) != 1 || got[0].Name != "good" {
					t.Errorf("%+v", got)
				}
			}
			if diff := cmp.Diff([]string{c.want}, problems(l)); diff != "" {
				t.Error(diff)
			}
			if n := strings.Count(log.String(), "level=WARN msg=\"skill left out\""); n != 1 {
				t.Errorf("it is warned of %d times: %s", n, log.String())
			}
		})
	}
}

func TestWhatPeopleWriteIsUnderstood(t *testing.T) {
	for name, c := range map[string]struct{ file, description, body string }{
		"other members":              {"---\nlicense: MIT\nname: s\nmetadata: {a: [1]}\ndescription: x\nallowed-tools: a b\n---\nbody", "x", "body"},
		"quotes":                     {"---\nname: \"s\"\ndescription: 'it''s: x'\n---\nbody", "it's: x", "body"},
		"lines":                      {"---\nname: s\ndescription: >\n  one\n  two\n\n  three\n---\n\nbody\n\n", "one two three", "body"},
		"lines that stay":            {"---\nname: s\ndescription: |\n  - one\n  - two\n---\nbody", "- one - two", "body"},
		"control characters":         {"---\nname: s\ndescription: \"a\\nb\\x1b[1mc\\u2028d\\te\"\n---\nbody", "a b [1mc d e", "body"},
		"a BOM and Windows' lines":   {"\ufeff---\r\nname: s\r\ndescription: x\r\n---\r\nbody\r\n", "x", "body"},
		"spaces behind the dashes":   {"--- \nname: s\ndescription: x\n---\t\nbody\n---\nmore", "x", "body\n---\nmore"},
		"no text":                    {"---\nname: s\ndescription: x\n---", "x", ""},
		"templates, which stay text": {"---\nname: s\ndescription: \"{{ x }}\"\n---\n{{ 7*7 }} {% include \"/etc/passwd\" %} `!ls`", "{{ x }}", "{{ 7*7 }} {% include \"/etc/passwd\" %} `!ls`"},
		"the longest":                {text("s", strings.Repeat("天", 1024), strings.Repeat("a", 64<<10)), strings.Repeat("天", 1024), strings.Repeat("a", 64<<10)},
	} {
		dir := t.TempDir()
		put(t, dir, map[string]string{"s/SKILL.md": c.file})
		l := skill.New(nil, skill.Dir(dir, "."))
		list := l.List()
		if len(list) != 1 {
			t.Errorf("%s: %q", name, problems(l))
			continue
		}
		if diff := cmp.Diff(c.description, list[0].Description); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if got, err := l.Load("s"); err != nil || got.Content != c.body {
			t.Errorf("%s: %q, %v", name, got.Content, err)
		}
	}
}

// AG-63: it is read again when it has changed, also at once, when a file system's clock has not moved on.
func TestWhatHasChangedIsReadAgain(t *testing.T) {
	dir := t.TempDir()
	l := skill.New(nil, skill.Dir(dir, "skills"))
	if got := l.List(); len(got) != 0 {
		t.Errorf("%+v", got)
	}
	for i := range 20 {
		want := fmt.Sprint("number ", i%10) // of the same length
		put(t, dir, map[string]string{"skills/s/SKILL.md": text("s", want, want)})
		got, err := l.Load("s")
		if list := l.List(); len(list) != 1 || list[0].Description != want || err != nil || got.Content != want {
			t.Fatalf("expected %s: %+v, %q, %v", want, list, got.Content, err)
		}
	}
	old := time.Now().Add(-time.Hour)
	file := filepath.Join(dir, "skills", "s", "SKILL.md")
	for _, want := range []string{"long ago", "and then"} {
		put(t, dir, map[string]string{"skills/s/SKILL.md": text("s", want, "")})
		if old = old.Add(time.Second); os.Chtimes(file, old, old) != nil {
			t.Fatal("the time cannot be set")
		}
		for range 2 {
			if list := l.List(); len(list) != 1 || list[0].Description != want {
				t.Fatalf("%+v", list)
			}
		}
	}
	put(t, dir, map[string]string{"skills/s/SKILL.md": "broken"})
	if got := l.List(); len(got) != 0 || len(l.Problems()) != 1 {
		t.Errorf("%+v", got)
	}
	if err := os.RemoveAll(filepath.Join(dir, "skills", "s")); err != nil {
		t.Fatal(err)
	}
	if got, left := l.List(), l.Problems(); len(got)+len(left) != 0 {
		t.Errorf("%+v, %v", got, left)
	}
	if _, err := l.Load("s"); err == nil || err.Error() != `unknown skill "s"` {
		t.Error(err)
	}
}

// AG-63: files inside the folder, and no others.
func TestFilesOfTheFolderAreRead(t *testing.T) {
	dir := t.TempDir()
	long := strings.Repeat("天气", 20_000)
	put(t, dir, map[string]string{
		"secret.txt": "secret", "skills/other/SKILL.md": text("other", "x", "secret"), "skills/other/o.md": "secret",
		"skills/s/SKILL.md": text("s", "x", "body"), "skills/s/a.md": "of a", "skills/s/ref/deep/b.md": "of b", "skills/s/long.md": long,
		"skills/s/picture.png": "\x89PNG\r\n\x1a\n\x00", "skills/s/.env": "KEY=secret", "skills/s/empty.md": "",
	})
	l := skill.New(nil, skill.Dir(dir, "skills"))
	loaded, err := l.Load("s")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(skill.Text{Content: "body", Files: []string{"a.md", "empty.md", "long.md", "picture.png", "ref/deep/b.md"}}, loaded); diff != "" {
		t.Error(diff)
	}
	for file, want := range map[string]string{"a.md": "of a", "./a.md": "of a", "ref/deep/b.md": "of b", "ref/../a.md": "of a", "empty.md": "", "long.md": long} {
		if got, err := l.Read("s", file); err != nil || got != want {
			t.Errorf("%s: %+v, %v", file, got, err)
		}
	}
	for file, want := range map[string]string{
		"":                       `"" is not a path inside the skill's folder; expected one such as "references/fields.md"`,
		".":                      `"." is not a path inside the skill's folder; expected one such as "references/fields.md"`,
		"../other/o.md":          `"../other/o.md" is not a path inside the skill's folder; expected one such as "references/fields.md"`,
		"ref/../../other":        `"ref/../../other" is not a path inside the skill's folder; expected one such as "references/fields.md"`,
		"/etc/passwd":            `"/etc/passwd" is not a path inside the skill's folder; expected one such as "references/fields.md"`,
		`..\other\o.md`:          `"..\\other\\o.md" is not a path inside the skill's folder; expected one such as "references/fields.md"`,
		"a\x00":                  `"a\x00" is not a path inside the skill's folder; expected one such as "references/fields.md"`,
		"ref":                    `the file "ref" of the skill "s" cannot be read: it is not a regular file`,
		"none.md":                `the file "none.md" of the skill "s" does not exist; expected one of a.md, empty.md, long.md, picture.png, ref/deep/b.md`,
		"picture.png":            `the file "picture.png" of the skill "s" cannot be read: it is not UTF-8 text`,
		strings.Repeat("a/", 99): `the file "` + strings.Repeat("a/", 32) + `…" of the skill "s" does not exist; expected one of a.md, empty.md, long.md, picture.png, ref/deep/b.md`,
	} {
		_, err := l.Read("s", file)
		if err == nil || err.Error() != want {
			t.Errorf("%q: %v", file, err)
		}
	}
	if _, err := l.Read("t", "a.md"); err == nil || err.Error() != `unknown skill "t"; expected one of other, s` {
		t.Error(err)
	}
}

// AG-63: links do not lead out.
func TestLinksDoNotLeadOut(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	put(t, outside, map[string]string{"secret/SKILL.md": text("secret", "secret", "secret"), "file": "secret"})
	put(t, dir, map[string]string{
		"skills/s/SKILL.md": text("s", "x", "body"), "skills/s/real.md": "of real", "skills/other/SKILL.md": text("other", "x", "other"), "skills/linked/x": "",
	})
	for name, to := range map[string]string{
		"skills/s/inside.md":     "real.md",
		"skills/s/sibling.md":    "../other/SKILL.md",
		"skills/s/absolute.md":   filepath.Join(outside, "file"),
		"skills/s/folder":        outside,
		"skills/secret":          filepath.Join(outside, "secret"),
		"skills/linked/SKILL.md": "../s/SKILL.md",
		"skills/s/loop.md":       "loop.md",
		"skills/a-file":          "s/real.md",
		"outside":                outside,
	} {
		if err := os.Symlink(to, filepath.Join(dir, filepath.FromSlash(name))); err != nil {
			t.Skip("there are no links here:", err)
		}
	}
	l := skill.New(nil, skill.Dir(dir, "skills"))
	var names []string
	for _, s := range l.List() {
		names = append(names, s.Name)
	}
	if diff := cmp.Diff([]string{"other", "s"}, names); diff != "" {
		t.Error(diff)
	}
	left := strings.Join(problems(l), "\n")
	if !strings.Contains(left, "skills/secret/SKILL.md: path escapes from parent") || !strings.Contains(left, "skills/linked/SKILL.md: path escapes from parent") {
		t.Error(left)
	}
	if got, err := l.Read("s", "inside.md"); err != nil || got != "of real" {
		t.Errorf("%+v, %v", got, err)
	}
	for _, file := range []string{"sibling.md", "absolute.md", "folder/file", "loop.md"} {
		if got, err := l.Read("s", file); err == nil || !strings.HasPrefix(err.Error(), fmt.Sprintf("the file %q of the skill %q cannot be read: ", file, "s")) {
			t.Errorf("%s: %+v, %v", file, got, err)
		}
	}
	if got := skill.New(nil, skill.Dir(dir, "outside")).List(); len(got) != 0 {
		t.Errorf("the place itself leads out: %+v", got)
	}
	if got := skill.New(nil, skill.Dir(dir, "../"+filepath.Base(outside))).List(); len(got) != 0 {
		t.Errorf("the place itself leads out: %+v", got)
	}
}

func TestPlacesAreBounded(t *testing.T) {
	dir, files := t.TempDir(), map[string]string{}
	for i := range 300 {
		name := fmt.Sprintf("s%03d", i)
		files["built-in/"+name+"/SKILL.md"] = text(name, strings.Repeat("天", 500), "")
		files[fmt.Sprintf("built-in/s000/files/%04d.md", i)] = ""
	}
	put(t, dir, files)
	l := skill.New(nil, skill.Dir(dir, "built-in"))
	list := l.List()
	if diff := cmp.Diff([]string{`built-in: there are more than 256 skills; those from "s256" on are ignored`}, problems(l)); diff != "" || len(list) != 256 {
		t.Error(len(list), diff)
	}
	loaded, err := l.Load("s000")
	if err != nil || len(loaded.Files) != 100 {
		t.Error(len(loaded.Files), err)
	}
	prompt := skill.Prompt(list)
	lines := strings.Split(prompt, "\n")
	if len(prompt) > 16<<10 || !strings.HasPrefix(lines[0], "- s000: 天") || !strings.HasPrefix(lines[len(lines)-1], "- more skills, not described here: s008 s009 ") || !strings.HasSuffix(prompt, " s255") {
		t.Errorf("%d bytes, %d lines: %s", len(prompt), len(lines), lines[len(lines)-1])
	}
	if p := skill.Prompt(list[:2]); strings.Count(p, "\n") != 1 || skill.Prompt(nil) != "" {
		t.Error(p)
	}
	many := make([]skill.Skill, 2000)
	for i := range many {
		many[i] = skill.Skill{Name: strings.Repeat("a", 60) + fmt.Sprint(i), Description: "x"}
	}
	if p := skill.Prompt(many); len(p) > 16<<10 || !strings.HasSuffix(p, "…") {
		t.Error(len(p))
	}
}

func TestAPlaceThatCannotBeReadIsAWarning(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, map[string]string{"skills": "a file"})
	l := skill.New(nil, skill.Dir(dir, "skills"))
	if diff := cmp.Diff([]string{"skills: cannot read the folder: not a directory"}, problems(l)); diff != "" {
		t.Error(diff)
	}
}

func ExampleLibrary() {
	dir, err := os.MkdirTemp("", "skills")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	for name, text := range map[string]string{
		"tea/SKILL.md":  "---\nname: tea\ndescription: How to make tea.\n---\nBoil water, see times.md.",
		"tea/times.md":  "Green: 2 minutes.",
		"milk/SKILL.md": "---\nname: coffee\n---\n",
	} {
		name = filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(text), 0o600)); err != nil {
			panic(err)
		}
	}
	l := skill.New(nil, skill.Dir(dir, "."))
	fmt.Println(skill.Prompt(l.List()))
	text, err := l.Load("tea")
	fmt.Println(text.Content, text.Files, err)
	for _, problem := range l.Problems() {
		fmt.Println(problem)
	}
	// Output:
	// - tea: How to make tea.
	// Boil water, see times.md. [times.md] <nil>
	// milk/SKILL.md:2:7: the name is "coffee"; expected the folder's name, "milk"
}

// What a turn pays for the list of twenty skills that have not changed.
func BenchmarkList(b *testing.B) {
	dir := b.TempDir()
	for i := range 20 {
		name := fmt.Sprint("s", i)
		folder := filepath.Join(dir, "skills", name)
		if err := os.MkdirAll(folder, 0o700); err != nil {
			b.Fatal(err)
		}
		file := filepath.Join(folder, "SKILL.md")
		if err := os.WriteFile(file, []byte(text(name, "x", "body")), 0o600); err != nil {
			b.Fatal(err)
		}
		if old := time.Now().Add(-time.Hour); os.Chtimes(file, old, old) != nil {
			b.Fatal("the time cannot be set")
		}
	}
	l := skill.New(nil, skill.Dir(dir, "skills"))
	b.ReportAllocs()
	for b.Loop() {
		if len(l.List()) != 20 {
			b.Fatal(l.Problems())
		}
	}
}

func TestALibraryCanBeNarrowed(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, map[string]string{
		"a/SKILL.md": text("a", "First.", "A"), "b/SKILL.md": text("b", "Second.", "B"), "b/more.txt": "more", "c/SKILL.md": text("c", "Third.", "C"),
	})
	all := skill.New(nil, skill.Dir(dir, "."))
	some := all.Only("a", "later")
	names := func(l *skill.Library) (list string) {
		for _, s := range l.List() {
			list += s.Name
		}
		return list
	}
	if names(all) != "abc" || names(some) != "a" || names(all.Only()) != "" {
		t.Errorf("%q %q", names(all), names(some))
	}
	if got, err := some.Load("a"); err != nil || strings.TrimSpace(got.Content) != "A" {
		t.Errorf("%+v %v", got, err)
	}
	const want = `unknown skill "b"; expected one of a`
	if _, err := some.Load("b"); err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
	if _, err := some.Read("b", "more.txt"); err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
	put(t, dir, map[string]string{"later/SKILL.md": text("later", "Fourth.", "D")})
	if names(some) != "alater" {
		t.Errorf("%q", names(some))
	}
}
