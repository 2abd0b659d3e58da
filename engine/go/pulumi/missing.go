// Package missing answers in the place of what the built CLI goes without.
package missing

import (
	"context"
	"fmt"
	"net/url"

	"gocloud.dev/blob"
	"gocloud.dev/secrets"
)

// Error says that something is not in this build, and where it is.
func Error(what string) error {
	return fmt.Errorf("%s not in this build of Pulumi's CLI (engine/README.md): use the official one", what)
}

// driver keeps the schemes of URLs known, so that an error names what is missing and not the URL.
type driver struct{}

func (driver) OpenBucketURL(_ context.Context, u *url.URL) (*blob.Bucket, error) {
	return nil, Error("the backend " + u.Scheme + ":// is")
}

func (driver) OpenKeeperURL(_ context.Context, u *url.URL) (*secrets.Keeper, error) {
	return nil, Error("the secrets provider " + u.Scheme + ":// is")
}

func init() {
	for _, scheme := range []string{"azblob", "gs"} {
		blob.DefaultURLMux().RegisterBucket(scheme, driver{})
	}
	for _, scheme := range []string{"awskms", "azurekeyvault", "gcpkms", "hashivault"} {
		secrets.DefaultURLMux().RegisterKeeper(scheme, driver{})
	}
}
