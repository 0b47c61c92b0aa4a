package backupstrategy

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"text/template"
	"text/template/parse"
)

// A template ends by itself only where nobody wrote a loop: range counts over plain numbers, and a template may call itself. These bounds are far above what
// an address needs.
const (
	maxSteps = 1000 // turns of ranges and calls of templates, together
	maxText  = 8 << 10
)

var (
	errTooLong = errors.New("too long")
	errEndless = fmt.Errorf("the template takes more than %d turns of range or calls of other templates, or builds a text of more than %d bytes: write the address without a loop", maxSteps, maxText)
)

// stepFunc is the name of the function that counts. A template that calls it only shortens its own life.
const stepFunc = "cozyEtcdStep"

// dashedParameter is how people write a parameter whose name holds a dash, which text/template takes for a minus.
var dashedParameter = regexp.MustCompile(`\.Parameters\.(\w+-[\w-]+)`)

// parseTemplate parses a template that stops after maxSteps steps, and whose own functions build no text of more than maxText bytes.
func parseTemplate(name, text string) (*template.Template, error) {
	steps := 0
	t := template.New(name).Option("missingkey=error").Funcs(template.FuncMap{
		stepFunc: func() (string, error) {
			if steps++; steps > maxSteps {
				return "", errEndless
			}
			return "", nil
		},
		"print": bounded(fmt.Sprint), "println": bounded(fmt.Sprintln), "html": bounded(template.HTMLEscaper), "js": bounded(template.JSEscaper),
		"urlquery": bounded(template.URLQueryEscaper),
		"printf": func(format string, args ...any) (string, error) {
			return bounded(func(...any) string { return fmt.Sprintf(format, args...) })()
		},
	})
	counter, err := template.Must(t.Clone()).Parse("{{" + stepFunc + "}}")
	if err != nil {
		return nil, err
	}
	count := counter.Root.Nodes[0]
	if t, err = t.Parse(text); err != nil {
		if dashed := dashedParameter.FindStringSubmatch(text); dashed != nil {
			err = fmt.Errorf("%w: write {{ index .Parameters %q }}, as a name with a dash is no field", err, dashed[1])
		}
		return nil, err
	}
	for _, each := range t.Templates() {
		if each.Tree != nil && each.Root != nil {
			countIn(each.Root, count)
			each.Root.Nodes = append([]parse.Node{count}, each.Root.Nodes...)
		}
	}
	return t, nil
}

// countIn puts the counter at the head of every loop below a list.
func countIn(list *parse.ListNode, count parse.Node) {
	if list == nil {
		return
	}
	for _, node := range list.Nodes {
		switch n := node.(type) {
		case *parse.IfNode:
			countIn(n.List, count)
			countIn(n.ElseList, count)
		case *parse.WithNode:
			countIn(n.List, count)
			countIn(n.ElseList, count)
		case *parse.RangeNode:
			countIn(n.List, count)
			countIn(n.ElseList, count)
			n.List.Nodes = append([]parse.Node{count}, n.List.Nodes...)
		}
	}
}

// bounded keeps a function of text/template from building a text without end.
func bounded(f func(...any) string) func(...any) (string, error) {
	return func(args ...any) (string, error) {
		s := f(args...)
		if len(s) > maxText {
			return "", errEndless
		}
		return s, nil
	}
}

// limitedBuilder stops a template that would render without end.
type limitedBuilder struct {
	strings.Builder
	limit int
}

func (b *limitedBuilder) Write(p []byte) (int, error) {
	if b.Len()+len(p) > b.limit {
		return 0, errTooLong
	}
	return b.Builder.Write(p)
}
