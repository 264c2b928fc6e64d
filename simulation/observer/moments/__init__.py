"""What must hold in one moment, which an observer has come by: functions of what there is then."""
