# Stands for systemctl show of a service: it runs since the file was written that says what it has loaded.
export LC_ALL=C
[ -e "$1" ] || { echo ActiveState=inactive; exit 0; }
echo ActiveState=active
date -u -r "$1" '+ActiveEnterTimestamp=%a %Y-%m-%d %H:%M:%S.%6N UTC'
