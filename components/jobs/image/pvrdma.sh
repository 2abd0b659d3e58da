why="@unfound@"
for library in @root@/usr/lib/*/libibverbs.so.1 @root@/usr/lib64/libibverbs.so.1
do [ -e "$library" ] || continue
abi=$(grep -ao 'rdmav[0-9][0-9]*' "$library" | sort -u | tail -n 1) || abi=
provider="${library%.so.1}/lib@provider@-${abi:-rdmav}.so"
why="$library loads drivers of ${abi:-rdmav} only, and there is no $provider"
[ -e "$provider" ] || continue
why="/etc/libibverbs.d has no @provider@.driver"
[ ! -e @root@/etc/libibverbs.d/@provider@.driver ] || why=""
break
done
[ -z "$why" ] || { echo "@refused@: $why@more@" >&2; exit 1; }
