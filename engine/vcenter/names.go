package main

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// A fault is asked for by names, and one that is misspelled would wait for ever without a word.

const (
	requestSuffix = "RequestType" // of what a call is given, which has a type of its own beside the call's
	nearestNames  = 3
)

// checkMethod refuses what is no call of a vCenter's API; the simulator need not serve it, since a call meets its fault
// before that.
func checkMethod(registry *simulator.Registry, name string) error {
	request, found := types.TypeFunc()(name)
	if found && !strings.Contains(name, ":") && !strings.HasSuffix(name, requestSuffix) && isRequest(request) {
		return nil
	}
	return fmt.Errorf("a vCenter's API has no call %q; nearest: %s", name, nearest(name, served(registry)))
}

// isRequest tells whether a type is what a call is sent as: addressed to an object.
func isRequest(kind reflect.Type) bool {
	if kind.Kind() != reflect.Struct {
		return false
	}
	this, found := kind.FieldByName("This")
	return found && this.Type == reflect.TypeFor[types.ManagedObjectReference]()
}

// served is the calls that the objects of the inventory answer.
func served(registry *simulator.Registry) []string {
	answer := reflect.TypeFor[soap.HasFault]()
	names := map[string]bool{}
	for _, object := range registry.AllReference("") {
		kind := reflect.TypeOf(object)
		for i := range kind.NumMethod() {
			method := kind.Method(i).Type
			if method.NumIn() == 0 || method.NumOut() != 1 || method.Out(0) != answer {
				continue
			}
			request := method.In(method.NumIn() - 1)
			if request.Kind() == reflect.Pointer && isRequest(request.Elem()) {
				names[request.Elem().Name()] = true
			}
		}
	}
	return sorted(names)
}

// checkPrivilege refuses a privilege that no role of the vCenter has; its administrator has all that there are.
func checkPrivilege(registry *simulator.Registry, name string) error {
	names := map[string]bool{}
	for _, object := range registry.AllReference("AuthorizationManager") {
		for _, role := range object.(*simulator.AuthorizationManager).RoleList {
			for _, privilege := range role.Privilege {
				names[privilege] = true
			}
		}
	}
	if names[name] {
		return nil
	}
	return fmt.Errorf("the vCenter has no privilege %q; nearest: %s", name, nearest(name, sorted(names)))
}

func sorted(names map[string]bool) []string {
	all := make([]string, 0, len(names))
	for name := range names {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// nearest is the names that differ least from a misspelled one.
func nearest(name string, known []string) string {
	known = slices.Clone(known)
	slices.SortStableFunc(known, func(a, b string) int { return distance(name, a) - distance(name, b) })
	return strings.Join(known[:min(nearestNames, len(known))], ", ")
}

// distance is how many letters have to be added, taken or changed, their case aside, to make one name of the other.
func distance(a, b string) int {
	a, b = strings.ToLower(a), strings.ToLower(b)
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			changed := diagonal
			if a[i] != b[j] {
				changed++
			}
			diagonal = row[j+1]
			row[j+1] = min(changed, diagonal+1, row[j]+1)
		}
	}
	return row[len(b)]
}
