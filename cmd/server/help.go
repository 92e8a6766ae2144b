package main

import (
	"cmp"
	_ "embed"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// helpColumns is the width of all help.
const helpColumns = 80

// manual has the texts of a command or action.
type manual struct {
	args     string // such as "SESSION [FILE]"; see checkArgs
	summary  string // for the list of commands or actions
	about    string
	examples string
	flags    string // the names of the flags to show without --all
}

// commonFlags is the annotation of a command with [manual.flags].
const commonFlags = "flags"

//go:embed help.txt
var helpText string

// manuals has the manual of each command by its path.
var manuals = readManuals(helpText)

// readManuals reads help.txt. A manual begins with a line "=== path :: args :: summary", and its sections with lines such as "--- examples".
func readManuals(text string) map[string]manual {
	all := map[string]manual{}
	for entry := range strings.SplitSeq(strings.TrimPrefix(text, "=== "), "\n=== ") {
		head, about, _ := strings.Cut(entry, "\n")
		parts := strings.Split(head, " :: ")
		sections := map[string]string{}
		for section := range strings.SplitSeq("about\n"+about, "--- ") {
			name, text, _ := strings.Cut(section, "\n")
			sections[name] = strings.Trim(text, "\n")
		}
		summary := parts[2]
		all[parts[0]] = manual{
			args: parts[1], summary: summary, about: cmp.Or(sections["about"], strings.ToUpper(summary[:1])+summary[1:]+"."),
			examples: sections["examples"], flags: sections["flags"],
		}
	}
	return all
}

// helpFor prints the help of the command that the words name.
func helpFor(root *cobra.Command, words []string) error {
	cmd, rest, err := root.Find(words)
	if err != nil || len(rest) > 0 && cmd.HasSubCommands() {
		return unknownCommand(cmd, append(rest, words...)[0])
	}
	return cmd.Help()
}

// printHelp prints the help of a command: with --all it has all flags, otherwise those of its manual.
func printHelp(w io.Writer, cmd *cobra.Command) {
	cmd.LocalFlags() // adds the flags of the commands above to Flags
	all, _ := cmd.Flags().GetBool("all")
	if cmd.HasParent() {
		usage := strings.TrimSpace(cmd.Parent().CommandPath() + " " + cmd.Use)
		fmt.Fprintf(w, "Usage: %s [FLAGS]\n\n", strings.TrimSpace(usage))
	}
	fmt.Fprintln(w, cmd.Long)
	if cmd.Example != "" {
		fmt.Fprintf(w, "\nExamples:\n  %s\n", strings.ReplaceAll(cmd.Example, "\n", "\n  "))
	}
	for _, group := range cmd.Groups() {
		printCommands(w, group.Title, cmd.Commands(), group.ID)
	}
	if cmd.HasParent() {
		printCommands(w, "Actions", cmd.Commands(), "")
		printFlags(w, cmd, all)
	}
	switch path := strings.TrimPrefix(cmd.CommandPath(), "lingserve"); {
	case !cmd.HasParent():
		fmt.Fprintln(w, "\n\"lingserve help COMMAND\" explains a command.")
	case cmd.HasSubCommands():
		fmt.Fprintf(w, "\n\"lingserve help%s ACTION\" explains an action.\n", path)
	case cmd.Flags().Lookup("config") == nil:
	case all:
		fmt.Fprint(w, "\nEach setting is also a key of lingserve.yaml and an environment variable:\n"+
			"--run-retention is run.retention and LINGSERVE_RUN_RETENTION. Other providers\n"+
			"have settings as openai has, such as --providers-deepseek-key; docs/models.md\n"+
			"lists them, and the variables that other programs use too.\n")
	default:
		fmt.Fprintf(w, "\n\"lingserve help%s --all\" shows all flags.\n", path)
	}
}

func printCommands(w io.Writer, title string, commands []*cobra.Command, group string) {
	var rows [][2]string
	for _, cmd := range commands {
		if cmd.GroupID == group && !cmd.Hidden {
			rows = append(rows, [2]string{cmd.Use, cmd.Short})
		}
	}
	printRows(w, title, rows)
}

func printFlags(w io.Writer, cmd *cobra.Command, all bool) {
	common := strings.Fields(cmd.Annotations[commonFlags])
	var rows, rest [][2]string
	for _, name := range common {
		rows = append(rows, flagRow(cmd.Flags().Lookup(name)))
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(common, f.Name) && f.Name != "help" && f.Name != "all" && !f.Hidden {
			rest = append(rest, flagRow(f))
		}
	})
	printRows(w, "Flags", rows)
	if all {
		printRows(w, "Other flags", rest)
	}
}

// flagRow returns a flag with its short name and the name of its value, and what it is for.
func flagRow(f *pflag.Flag) [2]string {
	value, usage := pflag.UnquoteUsage(f)
	label := strings.TrimSpace("--" + f.Name + " " + value)
	if f.Shorthand != "" {
		label = "-" + f.Shorthand + ", " + label
	}
	return [2]string{label, usage}
}

// printRows prints a table of two columns below a title; long texts continue on the next line.
func printRows(w io.Writer, title string, rows [][2]string) {
	if len(rows) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s:\n", title)
	column := 0
	for _, row := range rows {
		if len(row[0]) <= 28 {
			column = max(column, len(row[0])+4)
		}
	}
	for _, row := range rows {
		line := fmt.Sprintf("  %-*s", column-2, row[0])
		if len(row[0]) > column-4 {
			fmt.Fprintln(w, "  "+row[0])
			line = strings.Repeat(" ", column)
		}
		begin := len(line)
		for word := range strings.FieldsSeq(row[1]) {
			if len(line) > begin && len(line)+1+len(word) > helpColumns {
				fmt.Fprintln(w, line)
				line = strings.Repeat(" ", column)
			}
			if len(line) > begin {
				line += " "
			}
			line += word
		}
		fmt.Fprintln(w, line)
	}
}
