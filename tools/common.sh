# Sourced by the scripts of this folder. Their working directory becomes the root of the tree.
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export LC_ALL=C.UTF-8

say() { echo "$*" >&2; }

# packages SECTION...: the Debian packages of these sections of tools/packages.txt.
packages() {
    awk -v wanted=" $* " '/^\[/ { on = index(wanted, " " substr($1, 2, length($1) - 2) " "); next }
        on && $1 !~ /^#/ && NF { print $1 }' tools/packages.txt
}

# need SECTION...: installs what is missing as root, else prints the one line that does.
need() {
    command -v dpkg-query >/dev/null || return 0
    local missing=() package
    for package in $(packages "$@"); do
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
    done
    [ ${#missing[@]} -eq 0 ] && return
    local line="apt-get install -y --no-install-recommends ${missing[*]}"
    if [ "$(id -u)" -ne 0 ]; then
        say "Some packages are missing. Install them as root, then run this again:"
        say "$line"
        exit 1
    fi
    say "installing: ${missing[*]}"
    { apt-get update && DEBIAN_FRONTEND=noninteractive $line; } >&2
}

# build FOLDER [OPTION...]: configures FOLDER once and builds what has changed.
build() {
    local folder=$1
    shift
    if [ ! -f "$folder/build.ninja" ]; then
        meson setup "$folder" "$@" >&2 || return # callers in a condition switch set -e off
    fi
    ninja -C "$folder" -k 0 >&2
}

# Without a GPU, lavapipe is the only Vulkan driver that can answer: leaving the others out saves their start-up.
choose_vulkan_driver() {
    [ -n "${VK_ICD_FILENAMES:-}${VK_DRIVER_FILES:-}" ] && return
    local lavapipe
    lavapipe=$(ls /usr/share/vulkan/icd.d/lvp_icd.*.json 2>/dev/null | head -n 1)
    if [ -n "$lavapipe" ] && ! ls /dev/nvidia0 /dev/dri/renderD* >/dev/null 2>&1; then
        export VK_ICD_FILENAMES=$lavapipe
    fi
}
