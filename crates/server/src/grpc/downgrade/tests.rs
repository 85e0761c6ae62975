use vetch_api::EtcdError::{InvalidDowngradeTargetVersion, WrongDowngradeVersionFormat};

use super::check;

/// Every line was asked of etcd 3.7.1.
#[test]
fn targets_are_judged_as_etcd_judges_them() {
    for good in ["3.6", "3.6.0", "3.6.1", "3.6.0-rc.0", "3.6.0+x", "03.6.0"] {
        assert_eq!(check(good), Ok(()), "{good}");
    }
    for other in ["3.5", "3.7", "3.7.0", "3.8.0"] {
        assert_eq!(check(other), Err(InvalidDowngradeTargetVersion), "{other}");
    }
    for bad in ["", "x", "3", "v3.6.0", "3.6.0.0", "3.-1"] {
        assert_eq!(check(bad), Err(WrongDowngradeVersionFormat), "{bad}");
    }
}
