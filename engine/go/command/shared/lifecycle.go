// Package shared holds what local and remote commands have in common.
package shared

import "github.com/pulumi/pulumi-go-provider/infer"

// Lifecycle says what runs when. A change of Triggers replaces the resource; any other change updates it.
type Lifecycle struct {
	Triggers *[]any  `pulumi:"triggers,optional" provider:"replaceOnChanges"`
	Create   *string `pulumi:"create,optional"`
	Update   *string `pulumi:"update,optional"`
	Delete   *string `pulumi:"delete,optional"`
}

// Annotate describes the fields in the provider's schema.
func (l *Lifecycle) Annotate(a infer.Annotator) {
	a.Describe(&l.Triggers, "Values of any type; a change of one replaces the resource.")
	a.Describe(&l.Create, "Runs at creation, and at a change of an input when there is no update.")
	a.Describe(&l.Update, "Runs at a change of an input.")
	a.Describe(&l.Delete, "Runs at deletion.")
}

// OnUpdate is the command for a changed resource, or nil when there is none.
func (l *Lifecycle) OnUpdate() *string {
	if l.Update != nil {
		return l.Update
	}
	return l.Create
}

// Output is what the last command printed, each without its last newline.
type Output struct {
	Stdout string `pulumi:"stdout"`
	Stderr string `pulumi:"stderr"`
}

// Annotate describes the fields in the provider's schema.
func (o *Output) Annotate(a infer.Annotator) {
	a.Describe(&o.Stdout, "Standard output of the last command.")
	a.Describe(&o.Stderr, "Standard error of the last command.")
}

// PreviousOutput is the environment through which a command sees what the one before it printed.
func (o *Output) PreviousOutput() map[string]string {
	environment := map[string]string{}
	if o.Stdout != "" {
		environment["PULUMI_COMMAND_STDOUT"] = o.Stdout
	}
	if o.Stderr != "" {
		environment["PULUMI_COMMAND_STDERR"] = o.Stderr
	}
	return environment
}
