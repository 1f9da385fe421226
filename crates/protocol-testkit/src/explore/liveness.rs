//! Whether fair choices lead to rest from everywhere.

/// The fair choices between states.
#[derive(Debug, Default)]
pub(super) struct FairSteps {
    /// To and from, so that sorting brings together what leads to a state.
    steps: Vec<(u32, u32)>,
}

impl FairSteps {
    pub(super) fn add(&mut self, from: u32, to: u32) {
        self.steps.push((to, from));
    }

    /// Returns the first state from which fair choices can go on for ever, if there is one.
    ///
    /// Takes away every state whose fair choices all lead to states that are away already,
    /// beginning with those that have none; what stays is a circle or leads into one.
    pub(super) fn first_before_a_circle(mut self, states: usize) -> Option<u32> {
        self.steps.sort_unstable();
        let mut onward = vec![0_u32; states];
        for &(_, from) in &self.steps {
            onward[from as usize] += 1;
        }
        let mut resting: Vec<u32> = (0_u32..)
            .zip(&onward)
            .filter(|&(_, &left)| left == 0)
            .map(|(state, _)| state)
            .collect();
        while let Some(state) = resting.pop() {
            let first = self.steps.partition_point(|&(to, _)| to < state);
            for &(_, from) in self.steps[first..].iter().take_while(|&&(to, _)| to == state) {
                onward[from as usize] -= 1;
                if onward[from as usize] == 0 {
                    resting.push(from);
                }
            }
        }
        (0_u32..).zip(&onward).find(|&(_, &left)| left > 0).map(|(state, _)| state)
    }
}

#[cfg(test)]
mod tests {
    use super::FairSteps;

    #[test]
    fn a_circle_is_found_and_a_diamond_is_none() {
        let first = |steps: &[(u32, u32)]| {
            let mut fair = FairSteps::default();
            steps.iter().for_each(|&(from, to)| fair.add(from, to));
            fair.first_before_a_circle(5)
        };
        assert_eq!(first(&[(0, 1), (0, 2), (1, 3), (2, 3)]), None);
        assert_eq!(first(&[(0, 1), (1, 2), (2, 3), (3, 2), (3, 4)]), Some(0));
        assert_eq!(first(&[(0, 4), (3, 3)]), Some(3));
    }
}
